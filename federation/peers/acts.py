"""What one server does to another: each endpoint's name, and how its requests are limited and recorded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Final

_PLACE: Final = re.compile(r"\{[^{}]*\}")
FEDERATION: Final = "/_matrix/federation/"


class Kind(StrEnum):
    """Requests that are limited together."""

    TRANSACTION = "transaction"
    MEMBERSHIP = "membership"
    READ = "read"
    """Of a room's events."""
    QUERY = "query"
    """Of users, rooms by name, devices."""
    MEDIA = "media"
    OPEN = "open"
    """Nobody has to show who he is."""


class Recorded(Enum):
    """When a request that was obeyed is written into the audit. One that was refused is written behind."""

    AT_ONCE = auto()
    """It changed something: before it is answered."""
    BY_ITSELF = auto()
    """In the commit of what it changed."""
    BEHIND = auto()
    """A moment later, together with others."""
    NOT = auto()
    """Anybody may ask for it, and it tells nothing that is not public."""


@dataclass(frozen=True, slots=True)
class Act:
    name: str
    kind: Kind
    recorded: Recorded = Recorded.BEHIND


OTHER: Final = Act("other", Kind.QUERY)
"""An endpoint that is not in the table."""

TRANSACTION: Final = Act("transaction", Kind.TRANSACTION, Recorded.BY_ITSELF)
_INVITE: Final = Act("invite", Kind.MEMBERSHIP, Recorded.AT_ONCE)
_HIERARCHY: Final = Act("hierarchy", Kind.QUERY)
_DOWNLOAD: Final = Act("media_download", Kind.MEDIA)
_NOTARY: Final = Act("notary_query", Kind.OPEN)
_KEYS: Final = Act("server_keys", Kind.OPEN, Recorded.NOT)


def _changes(name: str) -> Act:
    return Act(name, Kind.MEMBERSHIP, Recorded.AT_ONCE)


# By method and path; a place in the path is `{}`, whatever its name.
ACTS: Final[Mapping[tuple[str, str], Act]] = {
    ("PUT", "/_matrix/federation/v1/send/{}"): TRANSACTION,
    **{
        ("GET", f"/_matrix/federation/v1/{name}/{{}}"): Act(name, Kind.READ)
        for name in ("event", "state", "state_ids", "backfill", "timestamp_to_event")
    },
    ("GET", "/_matrix/federation/v1/event_auth/{}/{}"): Act("event_auth", Kind.READ),
    ("POST", "/_matrix/federation/v1/get_missing_events/{}"): Act("get_missing_events", Kind.READ),
    **{
        ("GET", f"/_matrix/federation/v1/{name}/{{}}/{{}}"): Act(name, Kind.MEMBERSHIP)
        for name in ("make_join", "make_leave", "make_knock")
    },
    ("PUT", "/_matrix/federation/v1/send_join/{}/{}"): _changes("send_join"),
    ("PUT", "/_matrix/federation/v2/send_join/{}/{}"): _changes("send_join"),
    ("PUT", "/_matrix/federation/v1/send_leave/{}/{}"): _changes("send_leave"),
    ("PUT", "/_matrix/federation/v2/send_leave/{}/{}"): _changes("send_leave"),
    ("PUT", "/_matrix/federation/v1/send_knock/{}/{}"): _changes("send_knock"),
    ("PUT", "/_matrix/federation/v1/invite/{}/{}"): _INVITE,
    ("PUT", "/_matrix/federation/v2/invite/{}/{}"): _INVITE,
    ("PUT", "/_matrix/federation/v1/exchange_third_party_invite/{}"): _changes("third_party_invite"),
    ("PUT", "/_matrix/federation/v1/3pid/onbind"): Act("third_party_bind", Kind.OPEN, Recorded.NOT),
    ("GET", "/_matrix/federation/v1/query/directory"): Act("query_directory", Kind.QUERY),
    ("GET", "/_matrix/federation/v1/query/profile"): Act("query_profile", Kind.QUERY),
    ("GET", "/_matrix/federation/v1/query/{}"): Act("query", Kind.QUERY),
    ("GET", "/_matrix/federation/v1/publicRooms"): Act("public_rooms", Kind.QUERY),
    ("POST", "/_matrix/federation/v1/publicRooms"): Act("public_rooms", Kind.QUERY),
    ("GET", "/_matrix/federation/v1/hierarchy/{}"): _HIERARCHY,
    ("GET", "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{}"): _HIERARCHY,
    ("GET", "/_matrix/federation/v1/user/devices/{}"): Act("user_devices", Kind.QUERY),
    ("POST", "/_matrix/federation/v1/user/keys/query"): Act("device_keys_query", Kind.QUERY),
    ("POST", "/_matrix/federation/v1/user/keys/claim"): Act("device_keys_claim", Kind.QUERY),
    ("GET", "/_matrix/federation/v1/openid/userinfo"): Act("openid_userinfo", Kind.OPEN),
    ("GET", "/_matrix/federation/v1/version"): Act("version", Kind.OPEN, Recorded.NOT),
    ("GET", "/_matrix/federation/v1/media/download/{}"): _DOWNLOAD,
    ("GET", "/_matrix/federation/v1/media/thumbnail/{}"): Act("media_thumbnail", Kind.MEDIA),
    # As it was before media needed a signature. We ask so; whoever asks us so gets nothing.
    ("GET", "/_matrix/media/v3/download/{}/{}"): _DOWNLOAD,
    ("GET", "/_matrix/key/v2/server"): _KEYS,
    ("GET", "/_matrix/key/v2/server/{}"): _KEYS,
    ("GET", "/_matrix/key/v2/query/{}"): _NOTARY,
    ("GET", "/_matrix/key/v2/query/{}/{}"): _NOTARY,
    ("POST", "/_matrix/key/v2/query"): _NOTARY,
    ("POST", "/_matrix/policy/v1/sign"): Act("policy_sign", Kind.QUERY),
    ("GET", "/.well-known/matrix/server"): Act("delegation", Kind.OPEN, Recorded.NOT),
}


@lru_cache(maxsize=1024)
def act_of(method: str, template: str) -> Act | None:
    """What a request is, by its method and the template of its path. None where it is none of a server."""
    act = ACTS.get(("GET" if method == "HEAD" else method, _PLACE.sub("{}", template)))
    if act is None and template.startswith(FEDERATION):
        return OTHER
    return act
