"""The answer of `send_join`: how a resident server puts it together, and what the joining one checks.

Signatures, hashes and authorisation of all that is in it come afterwards, where the room is taken in.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.events import CREATE, EventId, Pdu, StateKey, parse
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion, version_of_create_event
from federation.memberships.membership_event import authoriser_of, with_signatures_of

MOST_HEROES: Final = 5
MOST_MEMBERS_IN_FULL: Final = 100


@dataclass(frozen=True, slots=True)
class SentJoin:
    """What was answered, read and found whole. `state` is the room's before the join."""

    event: Pdu
    version: RoomVersion
    create: Pdu
    state: Mapping[StateKey, Pdu] = field(repr=False)
    auth_chain: Mapping[EventId, Pdu] = field(repr=False)
    """Every event that the join and the state rest on, the state's own among them where they are such."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """It is not the answer that `send_join` has."""

    problem: str


# ---- the resident server -----------------------------------------------------------------------------


def answer(
    join: Pdu,
    state: Sequence[Pdu],
    auth_chain: Iterable[Pdu],
    *,
    omit_members: bool,
    servers: Collection[str],
) -> dict[str, Any]:
    """`state` is the state before the join, or without members when they are omitted but for the heroes;
    `auth_chain` that of the join and of the state."""
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


def may_be_short(state: Iterable[StateKey], most: int = MOST_MEMBERS_IN_FULL) -> bool:
    """Whether leaving members out saves the one that joins more than it costs: a Synapse that is given the
    short form asks for the rest at once, and takes no part in the room as a server until it has it."""
    return sum(type_ == "m.room.member" for type_, _ in state) > most


def without_members(state: Mapping[StateKey, Pdu], joining: str) -> list[Pdu]:
    """What must be said of the state when "events of type m.room.member may be omitted".

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
    invited", and if there is nobody else those who left. A server that others joined by knows no order of
    their arrival but that of the events' times."""
    others = [pdu for (type_, user), pdu in state.items() if type_ == "m.room.member" and user != joining]
    here = [pdu for pdu in others if pdu.membership in ("join", "invite")]
    gone = [pdu for pdu in others if pdu.membership in ("leave", "ban")]
    ordered = sorted(here or gone, key=lambda pdu: (pdu.origin_server_ts, pdu.event_id))
    return ordered[:MOST_HEROES]


# ---- the joining server ------------------------------------------------------------------------------


def read(content: Mapping[str, Any], join: Pdu, version: RoomVersion, server: str) -> SentJoin | WrongAnswer:
    """Check what `server` answered to our `join`. It was asked for the full state."""
    if content.get("members_omitted") is True:
        return WrongAnswer("members were left out, which was not asked for")
    state = _events(content.get("state"), version)
    chain = _events(content.get("auth_chain"), version)
    if isinstance(state, WrongAnswer):
        return state
    if isinstance(chain, WrongAnswer):
        return chain
    for pdu in (*state, *chain):
        if pdu.room_id != join.room_id or pdu.key is None:
            return WrongAnswer("an event in it is of another room, or no state event")
    by_key = {pdu.key: pdu for pdu in state if pdu.key is not None}
    if len(by_key) != len(state):
        return WrongAnswer("two events in the state have the same type and state key")
    create = _create(by_key, chain, version)
    if isinstance(create, WrongAnswer):
        return create
    signed = _signed_by_authoriser(content.get("event"), join, version, server)
    if isinstance(signed, WrongAnswer):
        return signed
    known = {pdu.event_id: pdu for pdu in (*state, *chain)}
    missing = next(_missing((signed, *known.values()), known), None)
    if missing is not None:
        return WrongAnswer(f"an event rests on {missing}, which is not in it")
    return SentJoin(signed, version, create, by_key, known)


def _events(listed: object, version: RoomVersion) -> list[Pdu] | WrongAnswer:
    if not isinstance(listed, list):
        return WrongAnswer("state or auth_chain is not a list")
    events: dict[EventId, Pdu] = {}
    for entry in listed:
        # What a room holds was accepted long ago, so how much it refers to is not looked at.
        pdu = parse(entry, version, enforce_counts=False)
        if not isinstance(pdu, Pdu):
            return WrongAnswer(f"an event in it is none: {pdu.problem}")
        events[pdu.event_id] = pdu
    return list(events.values())


def _create(state: Mapping[StateKey, Pdu], chain: Iterable[Pdu], version: RoomVersion) -> Pdu | WrongAnswer:
    create = state.get(CREATE)
    if create is None:
        return WrongAnswer("there is no create event in the state")
    if version_of_create_event(create.content) != version.id:
        return WrongAnswer("the create event is of another room version than the template was")
    if any(pdu.key == CREATE and pdu.event_id != create.event_id for pdu in chain):
        return WrongAnswer("there is another create event in the auth chain")
    return create


def _signed_by_authoriser(
    returned: object, join: Pdu, version: RoomVersion, server: str
) -> Pdu | WrongAnswer:
    """Our join with the signature of who vouches for it: the answer's `event` is "Required if the room is
    restricted and the joining user is authorised by one of the conditions".
    """
    authoriser = authoriser_of(join, version)
    if authoriser is None:
        return join
    # A server vouches with one of its own users.
    if domain(authoriser) != server or not isinstance(returned, dict):
        return WrongAnswer("the join lacks the signature of the server that vouches for it")
    signed = with_signatures_of(join, returned, server, version)
    return signed or WrongAnswer("the join lacks the signature of the server that vouches for it")


def _missing(events: Iterable[Pdu], known: Mapping[EventId, Pdu]) -> Iterator[EventId]:
    return (event_id for pdu in events for event_id in pdu.auth_events if event_id not in known)
