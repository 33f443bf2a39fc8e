"""What a request to the homeserver is for, in one word: a label for metrics, of which there are not many."""

from typing import Final

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
