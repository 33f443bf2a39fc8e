"""The server ACLs that this server sets: none of them may shut itself out of the room."""

from collections.abc import Sequence
from typing import Any, Final

from federation.errors import MatrixError
from federation.server_acl import server_acl

MOST_PATTERNS: Final = 1_000


def content_of(
    server: str, allow: Sequence[str] = ("*",), deny: Sequence[str] = (), *, allow_ip_literals: bool = True
) -> dict[str, Any]:
    """The content of `m.room.server_acl`. MatrixError where it would deny `server`, which sends it: nobody
    there could ever take it back."""
    if len(allow) + len(deny) > MOST_PATTERNS:
        raise MatrixError(
            "M_INVALID_PARAM", f"An ACL of more than {MOST_PATTERNS} patterns is too long.", 400
        )
    content = {"allow": list(allow), "deny": list(deny), "allow_ip_literals": allow_ip_literals}
    refuse_shutting_out(server, content)
    return content


def refuse_shutting_out(server: str, content: Any) -> None:
    """The same for content that somebody has put together."""
    if not isinstance(content, dict) or not server_acl(content).allows(server):
        raise MatrixError("M_INVALID_PARAM", "That ACL would shut this server out of the room.", 400)
