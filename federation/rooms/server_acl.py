"""Server ACLs: which servers may take part in a room. Client-server API, `m.room.server_acl`.

They are applied to requests and to the PDUs of transactions, not in the authorisation rules. This server
never sets an ACL that denies itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from federation.events import StateKey
from federation.matrix.errors import MatrixError
from federation.matrix.globs import Glob
from federation.matrix.identifiers import parse_server_name

ACL: Final[StateKey] = ("m.room.server_acl", "")


@dataclass(frozen=True)
class ServerAcl:
    """The content of a room's `m.room.server_acl`."""

    allow: tuple[str, ...]
    deny: tuple[str, ...]
    allow_ip_literals: bool

    @cached_property
    def _allowed(self) -> tuple[Glob, ...]:
        return tuple(map(Glob, self.allow))

    @cached_property
    def _denied(self) -> tuple[Glob, ...]:
        return tuple(map(Glob, self.deny))

    def allows(self, server_name: str) -> bool:
        """Whether the server may participate in the room. False for an invalid server name."""
        # "When comparing against the server ACLs, the suspect server's port number must not be considered."
        server = parse_server_name(server_name)
        if server is None:
            return False
        # 2. If the server name is an IP address (v4 or v6) literal, and `allow_ip_literals` is present and
        #    `false`, deny.
        if server.is_ip_literal and not self.allow_ip_literals:
            return False
        # 3. If the server name matches an entry in the `deny` list, deny.
        if any(glob.matches(server.host) for glob in self._denied):
            return False
        # 4. If the server name matches an entry in the `allow` list, allow.
        # 5. Otherwise, deny.
        return any(glob.matches(server.host) for glob in self._allowed)


NO_ACL: Final = ServerAcl(allow=("*",), deny=(), allow_ip_literals=True)
"""1. If there is no `m.room.server_acl` event in the room state, allow."""


def server_acl(content: Mapping[str, Any] | None) -> ServerAcl:
    """Parse the content of the room's `m.room.server_acl`, None if it has none.

    "This defaults to an empty list when not provided": an ACL without `allow` denies every server.
    """
    if content is None:
        return NO_ACL
    return ServerAcl(
        allow=_patterns(content.get("allow")),
        deny=_patterns(content.get("deny")),
        # "Defaults to `true` if missing or otherwise not a boolean."
        allow_ip_literals=content.get("allow_ip_literals") is not False,
    )


def _patterns(entries: object) -> tuple[str, ...]:
    return tuple(entry for entry in entries if isinstance(entry, str)) if isinstance(entries, list) else ()


MAX_PATTERNS: Final = 1_000


def server_acl_content(
    server: str, allow: Sequence[str] = ("*",), deny: Sequence[str] = (), *, allow_ip_literals: bool = True
) -> dict[str, Any]:
    """Make the content of `m.room.server_acl`. MatrixError if it would deny `server`, the server that sends
    it: its users could never revoke it."""
    if len(allow) + len(deny) > MAX_PATTERNS:
        raise MatrixError("M_INVALID_PARAM", f"A server ACL can have at most {MAX_PATTERNS} patterns.", 400)
    content = {"allow": list(allow), "deny": list(deny), "allow_ip_literals": allow_ip_literals}
    check_own_server_allowed(server, content)
    return content


def check_own_server_allowed(server: str, content: Any) -> None:
    """MatrixError if the content of an `m.room.server_acl` would deny `server`, which sends it."""
    if not isinstance(content, dict) or not server_acl(content).allows(server):
        raise MatrixError("M_INVALID_PARAM", "This server ACL would deny this server itself.", 400)
