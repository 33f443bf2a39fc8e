"""The content of space events. Client-server API, "Spaces"."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_server_name

SPACE: Final = "m.space"
"""The `type` in the create event of a space."""
CHILD: Final = "m.space.child"
PARENT: Final = "m.space.parent"
MAX_VIA: Final = 3


def child_content(via: Sequence[str], *, order: str | None = None, suggested: bool = False) -> dict[str, Any]:
    """The content of `m.space.child`, whose state key is the id of the room in the space."""
    content: dict[str, Any] = {"via": via_of(via)}
    if order is not None:
        # "order: […] The string MUST be no more than 50 characters, and consist of characters in the range
        # \\x20 (space) and \\x7E (~), inclusive. Otherwise it is ignored."
        if len(order) > 50 or not all(" " <= character <= "~" for character in order):
            raise MatrixError("M_INVALID_PARAM", "The order is not up to 50 characters of ASCII.", 400)
        content["order"] = order
    if suggested:
        content["suggested"] = True
    return content


def parent_content(via: Sequence[str], *, canonical: bool = False) -> dict[str, Any]:
    """The content of `m.space.parent`, whose state key is the id of the space."""
    content: dict[str, Any] = {"via": via_of(via)}
    if canonical:
        content["canonical"] = True
    return content


def is_child(content: Mapping[str, Any]) -> bool:
    """Whether the room is in the space: without a valid `via` it has been removed."""
    via = content.get("via")
    return isinstance(via, list) and bool(via)


def via_of(servers: Sequence[str]) -> list[str]:
    """A few servers through which the room can be joined."""
    return [server for server in dict.fromkeys(servers) if is_server_name(server)][:MAX_VIA]
