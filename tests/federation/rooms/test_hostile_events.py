"""A member of a room may sign any event. Whether an event or EDU is accepted or not, the transaction is
answered, the room stays readable, and no problem is logged.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.federation.http import well_meant
from tests.federation.http.besieged import Besieged, Room, besieged, signed_event
from tests.federation.http.hostility import (
    FEW,
    Mutation,
    everywhere,
    hostile,
    legal_values,
    mutated,
    mutations,
    written,
)
from tests.support.postgres import Server

VERSIONS = pytest.mark.parametrize("version", ["3", "12"])
"""The oldest admits floats and large integers. What differs in between does not matter here."""


@pytest.fixture
async def siege(postgres_server: Server, migrated_template: str, tmp_path: Path) -> AsyncIterator[Besieged]:
    async with besieged(postgres_server, migrated_template, tmp_path) as made:
        yield made


@pytest.fixture
async def room(siege: Besieged) -> Room:
    return await siege.make_room("6")


@VERSIONS
async def test_every_part_of_the_content_of_events(siege: Besieged, version: str) -> None:
    """Each part is replaced or removed in turn. Each event type has its own room, since some contents would
    end the room."""
    taken_in = set()
    for type_, state_key, content in well_meant.CONTENTS:
        room = await siege.make_room(version)
        key = {} if state_key is None else {"state_key": state_key}
        template = {**await siege.template(room), "type": type_, **key}
        events = ({**template, "content": one} for one in everywhere(content, FEW))
        if await send(siege, room, events, 50 if state_key is None else 10):
            taken_in.add(type_)
    # A room is created once.
    assert {type_ for type_, _, _ in well_meant.CONTENTS} - taken_in == {"m.room.create"}


@VERSIONS
@pytest.mark.parametrize(
    ("membership", "path"),
    [("join", "/v2/send_join/"), ("leave", "/v2/send_leave/"), ("knock", "/v1/send_knock/"), ("invite", "/v2/invite/")],
)
async def test_every_part_of_a_submitted_membership(siege: Besieged, version: str, membership: str, path: str) -> None:
    """Each part is replaced or removed in turn, under the resulting event id."""
    room = await siege.make_room(version)
    template = await siege.template(room, membership)
    shown = await siege.evil.graph.current_events(room.room_id, [("m.room.create", "")])
    stripped = [pdu.event for pdu in shown.values()]

    async def submit(one: Any) -> int:
        event, event_id = signed_event(one, version) if isinstance(one, Mapping) else (one, "$a")
        names = "/".join(quote(name, safe="") for name in (room.room_id, event_id))
        invite = {"room_version": version, "event": event, "invite_room_state": stripped}
        body = invite if membership == "invite" else event
        answer = await siege.throw("PUT", f"/_matrix/federation{path}{names}", written(body))
        return answer.status

    answered = [await submit(one) for one in (*everywhere(template, FEW), template)]
    await read_everything(siege, room)
    # A member of a room cannot knock on it.
    assert (200 in answered) is (membership != "knock")


@VERSIONS
async def test_every_part_of_an_event(siege: Besieged, version: str) -> None:
    """Each part is replaced or removed in turn."""
    room = await siege.make_room(version)
    message, member = await siege.template(room), await siege.template(room, "join")
    redaction = {**message, "type": "m.room.redaction"}
    events = [*everywhere(message, FEW), *everywhere(member, FEW), *({**redaction, "redacts": one} for one in FEW)]
    assert await send(siege, room, events, 50)


async def test_every_part_of_each_edu(siege: Besieged) -> None:
    """Each part is replaced or removed in turn."""
    room = await siege.make_room("12")
    rights = well_meant.edus(room.room_id, room.event_id)
    for edus in batches((one for right in rights for one in everywhere(right, FEW)), 100):
        answer = await siege.throw("PUT", siege.next_transaction(), written({"pdus": [], "edus": edus}))
        assert answer.status == 200, answer
    assert await siege.people.receipts(room.room_id), "some of it was accepted"
    await read_everything(siege, room)


@hostile(150)
@given(
    all_struck=st.lists(
        st.tuples(st.integers(0, len(well_meant.CONTENTS) - 1), mutations(legal_values)), min_size=1, max_size=10
    )
)
async def test_events_at_random(siege: Besieged, room: Room, all_struck: list[tuple[int, list[Mutation]]]) -> None:
    """Several parts at once, each event following the previous ones."""
    template = await siege.template(room)
    events = []
    for what, struck_by in all_struck:
        type_, state_key, content = well_meant.CONTENTS[what]
        key = {} if state_key is None else {"state_key": state_key}
        events.append(mutated({**template, "type": type_, "content": content, **key}, struck_by))
    await transact(siege, room, events)
    await siege.people.state(room.room_id)


async def send(siege: Besieged, room: Room, events: Iterable[Any], at_once: int) -> bool:
    """Send batches of events; each follows accepted events of the previous one. Returns whether any was
    accepted."""
    follows: list[str] = []
    for batch in batches(events, at_once):
        follows = await transact(siege, room, [following(one, follows) for one in batch]) or follows
    await read_everything(siege, room)
    return bool(follows)


def following(event: Any, event_ids: list[str]) -> Any:
    if not event_ids or not isinstance(event, Mapping) or "prev_events" not in event:
        return event
    return {**event, "prev_events": event_ids}


async def transact(siege: Besieged, room: Room, events: Iterable[Any]) -> list[str]:
    """Send a transaction, and return some of the accepted events."""
    pdus = [signed_event(one, room.version)[0] if isinstance(one, Mapping) else one for one in events]
    answer = await siege.throw("PUT", siege.next_transaction(), written({"pdus": pdus, "edus": []}))
    assert answer.status in (200, 400), answer
    results = answer.json.get("pdus", {})
    return [event_id for event_id, result in results.items() if result == {}][:10]


def batches(all_: Iterable[Any], size: int) -> Iterable[list[Any]]:
    iterator = iter(all_)
    while batch := list(islice(iterator, size)):
        yield batch


async def read_everything(siege: Besieged, room: Room) -> None:
    """Read everything about the room, as other servers and as users do."""
    await siege.read(room)
    rooms = siege.people
    await rooms.state(room.room_id)
    await rooms.members(room.room_id)
    await rooms.invites(well_meant.ALICE)
    await rooms.device_messages(well_meant.ALICE)
    await rooms.receipts(room.room_id)
    page = await rooms.messages(room.room_id, limit=20)
    for event in page.events:
        await rooms.relations(room.room_id, event.event_id)
        await rooms.context(room.room_id, event.event_id)
