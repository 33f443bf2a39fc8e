"""The federation endpoints by name, and how their requests are rate-limited and audited."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Final

_PARAMETER: Final = re.compile(r"\{[^{}]*\}")
FEDERATION: Final = "/_matrix/federation/"


class RequestKind(StrEnum):
    """Requests that share a rate limit."""

    TRANSACTION = "transaction"
    MEMBERSHIP = "membership"
    READ = "read"
    """Requests for events and states of rooms."""
    QUERY = "query"
    """Requests for users, aliases, public rooms and devices."""
    MEDIA = "media"
    OPEN = "open"
    """Requests that need no authentication."""


class AuditTiming(Enum):
    """When a successful request is written to the audit. Refused requests are always written deferred."""

    IMMEDIATE = auto()
    """Before the response, since the request has changed something."""
    WITH_COMMIT = auto()
    """In the commit of its changes."""
    DEFERRED = auto()
    """Later, together with others."""
    NEVER = auto()
    """Not at all, since the response is public."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a request does, as the audit names it."""

    name: str
    kind: RequestKind
    recorded: AuditTiming = AuditTiming.DEFERRED


OTHER: Final = Action("other", RequestKind.QUERY)
"""An endpoint that is not in the table."""

TRANSACTION: Final = Action("transaction", RequestKind.TRANSACTION, AuditTiming.WITH_COMMIT)
_INVITE: Final = Action("invite", RequestKind.MEMBERSHIP, AuditTiming.IMMEDIATE)
_HIERARCHY: Final = Action("hierarchy", RequestKind.QUERY)
_DOWNLOAD: Final = Action("media_download", RequestKind.MEDIA)
_NOTARY: Final = Action("notary_query", RequestKind.OPEN)
_KEYS: Final = Action("server_keys", RequestKind.OPEN, AuditTiming.NEVER)


def _changes(name: str) -> Action:
    return Action(name, RequestKind.MEMBERSHIP, AuditTiming.IMMEDIATE)


# By method and path; path parameters are `{}`, whatever their names.
ACTIONS: Final[Mapping[tuple[str, str], Action]] = {
    ("PUT", "/_matrix/federation/v1/send/{}"): TRANSACTION,
    **{
        ("GET", f"/_matrix/federation/v1/{name}/{{}}"): Action(name, RequestKind.READ)
        for name in ("event", "state", "state_ids", "backfill", "timestamp_to_event")
    },
    ("GET", "/_matrix/federation/v1/event_auth/{}/{}"): Action("event_auth", RequestKind.READ),
    ("POST", "/_matrix/federation/v1/get_missing_events/{}"): Action("get_missing_events", RequestKind.READ),
    **{
        ("GET", f"/_matrix/federation/v1/{name}/{{}}/{{}}"): Action(name, RequestKind.MEMBERSHIP)
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
    ("PUT", "/_matrix/federation/v1/3pid/onbind"): Action("third_party_bind", RequestKind.OPEN, AuditTiming.NEVER),
    ("GET", "/_matrix/federation/v1/query/directory"): Action("query_directory", RequestKind.QUERY),
    ("GET", "/_matrix/federation/v1/query/profile"): Action("query_profile", RequestKind.QUERY),
    ("GET", "/_matrix/federation/v1/query/{}"): Action("query", RequestKind.QUERY),
    ("GET", "/_matrix/federation/v1/publicRooms"): Action("public_rooms", RequestKind.QUERY),
    ("POST", "/_matrix/federation/v1/publicRooms"): Action("public_rooms", RequestKind.QUERY),
    ("GET", "/_matrix/federation/v1/hierarchy/{}"): _HIERARCHY,
    ("GET", "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{}"): _HIERARCHY,
    ("GET", "/_matrix/federation/v1/user/devices/{}"): Action("user_devices", RequestKind.QUERY),
    ("POST", "/_matrix/federation/v1/user/keys/query"): Action("device_keys_query", RequestKind.QUERY),
    ("POST", "/_matrix/federation/v1/user/keys/claim"): Action("device_keys_claim", RequestKind.QUERY),
    ("GET", "/_matrix/federation/v1/openid/userinfo"): Action("openid_userinfo", RequestKind.OPEN),
    ("GET", "/_matrix/federation/v1/version"): Action("version", RequestKind.OPEN, AuditTiming.NEVER),
    ("GET", "/_matrix/federation/v1/media/download/{}"): _DOWNLOAD,
    ("GET", "/_matrix/federation/v1/media/thumbnail/{}"): Action("media_thumbnail", RequestKind.MEDIA),
    # The endpoint from before authenticated media. This server requests it from others, but does not serve
    # it.
    ("GET", "/_matrix/media/v3/download/{}/{}"): _DOWNLOAD,
    ("GET", "/_matrix/key/v2/server"): _KEYS,
    ("GET", "/_matrix/key/v2/server/{}"): _KEYS,
    ("GET", "/_matrix/key/v2/query/{}"): _NOTARY,
    ("GET", "/_matrix/key/v2/query/{}/{}"): _NOTARY,
    ("POST", "/_matrix/key/v2/query"): _NOTARY,
    ("POST", "/_matrix/policy/v1/sign"): Action("policy_sign", RequestKind.QUERY),
    ("GET", "/.well-known/matrix/server"): Action("delegation", RequestKind.OPEN, AuditTiming.NEVER),
}


@lru_cache(maxsize=1024)
def action_of(method: str, template: str) -> Action | None:
    """The action of a request, by its method and path template. None if it is not a request between
    servers."""
    action = ACTIONS.get(("GET" if method == "HEAD" else method, _PARAMETER.sub("{}", template)))
    if action is None and template.startswith(FEDERATION):
        return OTHER
    return action
