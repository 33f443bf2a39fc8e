"""Where a page of a room's timeline ended, as text for whoever goes on reading."""

from federation.errors import MatrixError
from federation.identifiers import is_event_id

LARGEST = 2**63 - 1


def write(depth: int, origin_server_ts: int, event_id: str) -> str:
    return f"{depth}_{origin_server_ts}_{event_id}"


def read(token: str) -> tuple[int, int, str]:
    """MatrixError for what is none."""
    depth, _, rest = token.partition("_")
    ts, _, event_id = rest.partition("_")
    if not is_event_id(event_id) or not _is_number(depth) or not _is_number(ts):
        raise MatrixError("M_INVALID_PARAM", "That is no place in a timeline.", 400)
    return int(depth), int(ts), event_id


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) <= LARGEST
