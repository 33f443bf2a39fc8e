"""What the answer of a homeserver to a request of ours means: done, refused, or no answer at all.

Where it is unclear whether a homeserver has said something, it has not: whoever asked waits and asks again,
and nothing is taken for refused that was never looked at.

What a request to the homeserver is for, in one word: a label for metrics, of which there are not many.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError, limit_exceeded

MOST_TEXT: Final = 400
MOST_ERRCODE: Final = 100
LATER_MS: Final = 1_000
"""When to come back if a homeserver that has enough does not say."""

_NAMES: Final[Mapping[type, str]] = {dict: "object", list: "array"}

# A proxy in front of it speaks no Matrix. What these say is about the request itself, and stays so; whatever
# else a proxy says is about the homeserver, and passes.
_OF_PROXIES: Final[Mapping[int, tuple[str, str]]] = {
    400: ("M_UNKNOWN", "What stands in front of the homeserver does not let this pass."),
    413: ("M_TOO_LARGE", "What stands in front of the homeserver lets nothing pass that is so large."),
    414: ("M_UNKNOWN", "What stands in front of the homeserver lets no address pass that is so long."),
    431: ("M_UNKNOWN", "What stands in front of the homeserver lets no address pass that is so long."),
}
# Said by a homeserver in trouble of its own. 502 and 504, with its reason, are about other servers.
_IN_TROUBLE: Final = frozenset({500, 503})
# A registration that the homeserver does not know any more is for the operator to put right; until then what
# there is to say waits.
_NOT_INSTALLED: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"})


@dataclass(frozen=True, slots=True)
class Broken:
    """It was no answer. Why, as part of a sentence."""

    reason: str


T = TypeVar("T")


def meaning(status: int, data: bytes, wanted: type[T], *, own_token: bool = True) -> T | MatrixError | Broken:
    """`wanted` is what it was asked for, `own_token`: with the token of the registration."""
    try:
        found = decode(data)
    except NotJson:
        found = None
    if 200 <= status < 300:
        return found if isinstance(found, wanted) else Broken(f"what it says is no JSON {_NAMES[wanted]}")
    said = found if isinstance(found, dict) else {}
    errcode = said.get("errcode")
    if (
        not isinstance(errcode, str)
        or not errcode
        or len(errcode) > MOST_ERRCODE
        or not errcode.isprintable()
    ):
        named = _OF_PROXIES.get(status)
        return Broken(f"HTTP status {status}") if named is None else MatrixError(*named, status)
    if status == 429 or errcode == "M_LIMIT_EXCEEDED":
        later = said.get("retry_after_ms")
        later = max(0, later) if type(later) is int else LATER_MS
        return limit_exceeded(_text(said), 429, later)
    if status in _IN_TROUBLE:
        return Broken(f"HTTP status {status}, {errcode}")
    if own_token and errcode in _NOT_INSTALLED:
        return Broken(f"it does not know our as_token any more, {errcode}")
    if status == 403 and errcode == "M_BAD_STATE":
        # So Synapse calls it that somebody was banned, which the rules forbid like everything else.
        errcode = "M_FORBIDDEN"
    return MatrixError(errcode, _text(said), status if 400 <= status < 600 else 502)


def _text(said: Mapping[str, Any]) -> str:
    text = said.get("error")
    text = "".join(one for one in text if one.isprintable()) if isinstance(text, str) else ""
    return text[:MOST_TEXT] or "The homeserver gives no reason."


OTHER: Final = "other"

_KINDS: Final = frozenset(
    {
        "account", "aliases", "appservice", "ban", "capabilities", "context", "createRoom", "directory",
        "download", "event", "events", "forget", "hierarchy", "invite", "join", "joined_members",
        "joined_rooms", "keys", "kick", "knock", "leave", "login", "logout", "members", "messages",
        "presence", "profile", "publicRooms", "read_markers", "receipt", "redact", "register", "relations",
        "send", "sendToDevice", "state", "timestamp_to_event", "typing", "unban", "upgrade", "upload",
        "user", "versions",
    }
)  # fmt: skip
_PREFIXES: Final = ("_matrix/client/", "_matrix/media/")


def request_kind(path: str) -> str:
    """Ids stand in a path quoted, so that none of them has a slash."""
    path = path.removeprefix("/")
    for prefix in _PREFIXES:
        if path.startswith(prefix):
            parts = path[len(prefix) :].split("/")
            break
    else:
        return OTHER
    # `versions` has none before it.
    where = parts[1:] or parts
    named = where[2] if where[0] == "rooms" and len(where) > 2 else where[0]
    if named == "media" and len(where) > 1:
        named = where[1]
    return named if named in _KINDS else OTHER
