"""The response of `send_join`: built by the resident server, parsed and checked by the joining server.

Signatures, hashes and auth rules of its events are checked later, when the room is imported.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.events import CREATE, EventId, Pdu, StateKey, parse
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion, version_of_create_event
from federation.memberships.membership_event import add_signatures_of, authoriser_of

MAX_HEROES: Final = 5
MAX_MEMBERS_IN_FULL: Final = 100


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A complete response. `state` is the room's state before the join."""

    event: Pdu
    version: RoomVersion
    create: Pdu
    state: Mapping[StateKey, Pdu] = field(repr=False)
    auth_chain: Mapping[EventId, Pdu] = field(repr=False)
    """The events of the state and of the auth chain, by id. They include all auth events of the join and of
    each other."""


@dataclass(frozen=True, slots=True)
class InvalidResponse:
    """The response does not conform to the specification of `send_join`."""

    problem: str


# ---- the resident server -----------------------------------------------------------------------------


def build_response(
    join: Pdu, state: Sequence[Pdu], auth_chain: Iterable[Pdu], *, omit_members: bool, servers: Collection[str]
) -> dict[str, Any]:
    """Build the response. `state` is the state before the join, without members except the heroes if they are
    omitted; `auth_chain` is that of the join and of the state."""
    content: dict[str, Any] = {
        "event": join.event,
        "state": [pdu.event for pdu in state],
        "members_omitted": omit_members,
    }
    # "If the omit_members query parameter was set to true, then any events that are returned in state may be
    # omitted from auth_chain".
    redundant = {pdu.event_id for pdu in state} if omit_members else frozenset()
    content["auth_chain"] = [pdu.event for pdu in auth_chain if pdu.event_id not in redundant]
    if omit_members:
        # "Required if members_omitted is true. A list of the servers active in the room (ie, those with
        # joined members) before the join."
        content["servers_in_room"] = sorted(servers)
    return content


def may_omit_members(state: Iterable[StateKey], most: int = MAX_MEMBERS_IN_FULL) -> bool:
    """Whether omitting members saves the joining server more than it costs. A Synapse that receives the short
    response requests the rest immediately, and does not fully participate in the room until it has it."""
    return sum(type_ == "m.room.member" for type_, _ in state) > most


def without_members(state: Mapping[StateKey, Pdu], joining: str) -> list[Pdu]:
    """The part of the state that the response must have when "events of type m.room.member may be omitted".

    "If the room to be joined has no m.room.name nor m.room.canonical_alias events in its current state, the
    resident server should determine the room members who would be included in the m.heroes property of the
    room summary […]. The resident server should include these members' membership events in the response".
    """
    kept = [pdu for (type_, _), pdu in state.items() if type_ != "m.room.member"]
    if ("m.room.name", "") not in state and ("m.room.canonical_alias", "") not in state:
        kept += heroes(state, joining)
    return kept


def heroes(state: Mapping[StateKey, Pdu], joining: str) -> list[Pdu]:
    """Client-server API: "the first 5 members of the room, ordered by stream ordering, which are joined or
    invited", or if there are none, users that have left. A resident server knows the order only by the
    timestamps of the events."""
    others = [pdu for (type_, user), pdu in state.items() if type_ == "m.room.member" and user != joining]
    current = [pdu for pdu in others if pdu.membership in ("join", "invite")]
    former = [pdu for pdu in others if pdu.membership in ("leave", "ban")]
    ordered = sorted(current or former, key=lambda pdu: (pdu.origin_server_ts, pdu.event_id))
    return ordered[:MAX_HEROES]


# ---- the joining server ------------------------------------------------------------------------------


def parse_response(
    content: Mapping[str, Any], join: Pdu, version: RoomVersion, server: str
) -> JoinResult | InvalidResponse:
    """Parse and check the response of `server` to the local `join`. The full state was requested."""
    if content.get("members_omitted") is True:
        return InvalidResponse("it omits members, which was not requested")
    state = _events(content.get("state"), version)
    chain = _events(content.get("auth_chain"), version)
    if isinstance(state, InvalidResponse):
        return state
    if isinstance(chain, InvalidResponse):
        return chain
    for pdu in (*state, *chain):
        if pdu.room_id != join.room_id or pdu.key is None:
            return InvalidResponse("it has an event that is of another room or is not a state event")
    by_key = {pdu.key: pdu for pdu in state if pdu.key is not None}
    if len(by_key) != len(state):
        return InvalidResponse("two events in the state have the same type and state key")
    create = _create(by_key, chain, version)
    if isinstance(create, InvalidResponse):
        return create
    signed = _add_authoriser_signature(content.get("event"), join, version, server)
    if isinstance(signed, InvalidResponse):
        return signed
    known = {pdu.event_id: pdu for pdu in (*state, *chain)}
    missing = next(_missing((signed, *known.values()), known), None)
    if missing is not None:
        return InvalidResponse(f"it lacks {missing}, an auth event of one of its events")
    return JoinResult(signed, version, create, by_key, known)


def _events(listed: object, version: RoomVersion) -> list[Pdu] | InvalidResponse:
    if not isinstance(listed, list):
        return InvalidResponse("state or auth_chain is not a list")
    events: dict[EventId, Pdu] = {}
    for entry in listed:
        # The room's events were accepted long ago, so the limits on the number of references do not apply.
        pdu = parse(entry, version, enforce_counts=False)
        if not isinstance(pdu, Pdu):
            return InvalidResponse(f"it has an event that is not valid: {pdu.problem}")
        events[pdu.event_id] = pdu
    return list(events.values())


def _create(state: Mapping[StateKey, Pdu], chain: Iterable[Pdu], version: RoomVersion) -> Pdu | InvalidResponse:
    create = state.get(CREATE)
    if create is None:
        return InvalidResponse("the state has no create event")
    if version_of_create_event(create.content) != version.id:
        return InvalidResponse("the create event has another room version than the template")
    if any(pdu.key == CREATE and pdu.event_id != create.event_id for pdu in chain):
        return InvalidResponse("the auth chain has another create event")
    return create


def _add_authoriser_signature(returned: object, join: Pdu, version: RoomVersion, server: str) -> Pdu | InvalidResponse:
    """Add the signature of the server that authorises a restricted join to the local join event. The
    response's `event` is "Required if the room is restricted and the joining user is authorised by one of the
    conditions"."""
    authoriser = authoriser_of(join, version)
    if authoriser is None:
        return join
    # The authoriser must be a user of the server that has answered.
    if domain(authoriser) != server or not isinstance(returned, dict):
        return InvalidResponse("the join lacks the signature of the server that authorises it")
    signed = add_signatures_of(join, returned, server, version)
    return signed or InvalidResponse("the join lacks the signature of the server that authorises it")


def _missing(events: Iterable[Pdu], known: Mapping[EventId, Pdu]) -> Iterator[EventId]:
    return (event_id for pdu in events for event_id in pdu.auth_events if event_id not in known)
