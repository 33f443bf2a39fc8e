"""Policy servers: a room may name a server that has to sign every event. Client-server API, `m.room.policy`;
server-server API, "Policy Servers" (v1.18, MSC4284)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.events import Pdu, StateKey
from federation.events.hashes import signed_bytes
from federation.matrix.identifiers import is_server_name
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import holds, verify_key

POLICY: Final[StateKey] = ("m.room.policy", "")
KEY_ID: Final = "ed25519:policy_server"
"""The one key of every policy server; its public half stands in the room."""


@dataclass(frozen=True, slots=True)
class PolicyServer:
    server: str
    public: bytes


def named_by(policy: Pdu) -> PolicyServer | None:
    """The server that the room's `m.room.policy` names; None if it names none properly, which is as if there
    were no such event. Whether somebody of that server is joined, without which it does not count either, is
    for the caller to look at."""
    via = policy.content.get("via")
    keys = policy.content.get("public_keys")
    public = keys.get("ed25519") if isinstance(keys, dict) else None
    key = verify_key(public, 0)
    if not isinstance(via, str) or not is_server_name(via) or key is None:
        return None
    return PolicyServer(via, key.public)


def needs_signature(pdu: Pdu) -> bool:
    """Every event but the `m.room.policy` itself: a room must be able to get rid of its policy server."""
    return pdu.key != POLICY


def is_signed(pdu: Pdu, version: RoomVersion, policy: PolicyServer) -> bool:
    """7. "If the room uses a policy server, passes the policy server's signature check"."""
    made = pdu.signatures.get(policy.server, {}).get(KEY_ID)
    return made is not None and holds(policy.public, signed_bytes(pdu.event, version), made)


def merged(event: Mapping[str, Any], policy: PolicyServer, answer: object) -> dict[str, Any] | None:
    """The event with the signature of the answer beside those it has. The answer holds only the policy
    server's; what else it holds is not looked at."""
    of_server = answer.get(policy.server) if isinstance(answer, dict) else None
    made = of_server.get(KEY_ID) if isinstance(of_server, dict) else None
    if not isinstance(made, str):
        return None
    signatures = dict(event["signatures"])
    signatures[policy.server] = {**signatures.get(policy.server, {}), KEY_ID: made}
    return {**event, "signatures": signatures}
