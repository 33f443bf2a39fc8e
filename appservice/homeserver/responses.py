"""Interprets the homeserver's responses: success, refusal, or no valid response.

When it is unclear whether a response comes from the homeserver itself, it counts as no response: the caller
waits and retries, so a request that the homeserver never processed is not mistaken for a refused one.

Also maps a request path to its kind, a label for metrics with few values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError, limit_exceeded

MAX_TEXT: Final = 400
MAX_ERRCODE: Final = 100
RETRY_AFTER_MS: Final = 1_000
"""Pause before a retry if a rate-limiting homeserver does not name one."""

_NAMES: Final[Mapping[type, str]] = {dict: "object", list: "array"}

# A reverse proxy in front of the homeserver sends no Matrix errors. These statuses concern the request itself
# and are permanent; all others concern the homeserver and are transient.
_PROXY_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("M_UNKNOWN", "A reverse proxy in front of the homeserver rejects this request."),
    413: ("M_TOO_LARGE", "A reverse proxy in front of the homeserver rejects a request body of this size."),
    414: ("M_UNKNOWN", "A reverse proxy in front of the homeserver rejects a URL or headers of this length."),
    431: ("M_UNKNOWN", "A reverse proxy in front of the homeserver rejects a URL or headers of this length."),
}
# The homeserver's own failures. 502 and 504 with an errcode concern other servers.
_SERVER_FAILURES: Final = frozenset({500, 503})
# The operator has to restore a registration that the homeserver no longer knows; until then requests wait.
_UNKNOWN_TOKEN_CODES: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"})


@dataclass(frozen=True, slots=True)
class InvalidResponse:
    """There was no valid response. `reason` is a part of a sentence."""

    reason: str


T = TypeVar("T")


def interpret_response(
    status: int, data: bytes, wanted: type[T], *, own_token: bool = True
) -> T | MatrixError | InvalidResponse:
    """`wanted` is the expected JSON type. `own_token`: the request was made with the registration's token."""
    try:
        found = decode(data)
    except NotJson:
        found = None
    if 200 <= status < 300:
        return found if isinstance(found, wanted) else InvalidResponse(f"its response is not a JSON {_NAMES[wanted]}")
    body = found if isinstance(found, dict) else {}
    errcode = body.get("errcode")
    if not isinstance(errcode, str) or not errcode or len(errcode) > MAX_ERRCODE or not errcode.isprintable():
        proxy_error = _PROXY_ERRORS.get(status)
        return InvalidResponse(f"HTTP status {status}") if proxy_error is None else MatrixError(*proxy_error, status)
    if status == 429 or errcode == "M_LIMIT_EXCEEDED":
        retry_after_ms = body.get("retry_after_ms")
        retry_after_ms = max(0, retry_after_ms) if type(retry_after_ms) is int else RETRY_AFTER_MS
        return limit_exceeded(_text(body), 429, retry_after_ms)
    if status in _SERVER_FAILURES:
        return InvalidResponse(f"HTTP status {status}, {errcode}")
    if own_token and errcode in _UNKNOWN_TOKEN_CODES:
        return InvalidResponse(f"it no longer knows the registration's as_token, {errcode}")
    if status == 403 and errcode == "M_BAD_STATE":
        # Synapse's errcode for a banned user. The authorisation rules forbid it like everything else.
        errcode = "M_FORBIDDEN"
    return MatrixError(errcode, _text(body), status if 400 <= status < 600 else 502)


def _text(body: Mapping[str, Any]) -> str:
    text = body.get("error")
    text = "".join(one for one in text if one.isprintable()) if isinstance(text, str) else ""
    return text[:MAX_TEXT] or "The homeserver gave no reason."


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
    """Ids are quoted in a path, so none of them contains a slash."""
    path = path.removeprefix("/")
    for prefix in _PREFIXES:
        if path.startswith(prefix):
            parts = path[len(prefix) :].split("/")
            break
    else:
        return OTHER
    # `versions` has no version before it.
    where = parts[1:] or parts
    proxy_error = where[2] if where[0] == "rooms" and len(where) > 2 else where[0]
    if proxy_error == "media" and len(where) > 1:
        proxy_error = where[1]
    return proxy_error if proxy_error in _KINDS else OTHER
