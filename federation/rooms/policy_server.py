"""Policy servers: a room can name a server that must sign its events.

Client-server API, `m.room.policy`; server-server API, "Policy Servers" (v1.18, MSC4284).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.events import Pdu, StateKey
from federation.events.hashes import signed_bytes
from federation.matrix.identifiers import is_server_name
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import is_valid_signature, verify_key

POLICY: Final[StateKey] = ("m.room.policy", "")
KEY_ID: Final = "ed25519:policy_server"
"""The key id that every policy server uses. The public key is in the room's `m.room.policy`."""


@dataclass(frozen=True, slots=True)
class PolicyServer:
    server: str
    public: bytes


def parse_policy_server(policy: Pdu) -> PolicyServer | None:
    """The server that the room's `m.room.policy` names. None if the event is invalid, which has the same
    effect as no event. The caller must check that a user of that server is joined; otherwise the room has no
    policy server."""
    via = policy.content.get("via")
    keys = policy.content.get("public_keys")
    public = keys.get("ed25519") if isinstance(keys, dict) else None
    key = verify_key(public, 0)
    if not isinstance(via, str) or not is_server_name(via) or key is None:
        return None
    return PolicyServer(via, key.public)


def needs_signature(pdu: Pdu) -> bool:
    """True for every event except `m.room.policy` itself, so that a room can remove its policy server."""
    return pdu.key != POLICY


def is_signed(pdu: Pdu, version: RoomVersion, policy: PolicyServer) -> bool:
    """7. "If the room uses a policy server, passes the policy server's signature check"."""
    made = pdu.signatures.get(policy.server, {}).get(KEY_ID)
    return made is not None and is_valid_signature(policy.public, signed_bytes(pdu.event, version), made)


def with_policy_signature(event: Mapping[str, Any], policy: PolicyServer, answer: object) -> dict[str, Any] | None:
    """Add the policy server's signature from its response to the event. Everything else in the response is
    ignored. None if the response has no signature."""
    of_server = answer.get(policy.server) if isinstance(answer, dict) else None
    made = of_server.get(KEY_ID) if isinstance(of_server, dict) else None
    if not isinstance(made, str):
        return None
    signatures = dict(event["signatures"])
    signatures[policy.server] = {**signatures.get(policy.server, {}), KEY_ID: made}
    return {**event, "signatures": signatures}
