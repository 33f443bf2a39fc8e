"""Finding a room or an event by what the operator typed."""

import pytest

from bridge.control.server import lookup as finding
from bridge.control.server.lookup import find_event, find_room, search
from storage.errors import LocalError
from storage.rooms.aliases import Alias, insert_alias
from tests.bridge.control.server.conftest import Operator


async def named(operator: Operator, name: str) -> str:
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    await node.graph.send_event(room_id, "m.room.name", {"name": name}, alice, "")
    return room_id


async def test_a_room_is_found_by_its_id_or_the_beginning_of_it(operator: Operator) -> None:
    """With or without the `!`, which shells interpret."""
    parts = operator.node.homeserver
    room_id = await named(operator, "Kitchen")
    for text in (room_id, room_id[1:], room_id[:12], room_id[1:12]):
        assert await find_room(parts, text) == room_id
    with pytest.raises(LocalError, match="not joined a room !nowhere"):
        await find_room(parts, "!nowhere")
    with pytest.raises(LocalError, match="not joined a room !"):
        await find_room(parts, "!")


async def test_a_room_is_found_by_its_name(operator: Operator) -> None:
    """Without regard to case. A name of two rooms is ambiguous."""
    parts = operator.node.homeserver
    first = await named(operator, "Kitchen")
    assert await find_room(parts, "kitchen") == first
    with pytest.raises(LocalError, match="with the id, alias or name cellar"):
        await find_room(parts, "cellar")
    second = await named(operator, "KITCHEN")
    with pytest.raises(LocalError, match="several rooms") as refused:
        await find_room(parts, "kitchen")
    assert first in refused.value.problem
    assert second in refused.value.problem


async def test_a_room_is_found_by_its_alias(operator: Operator) -> None:
    """A local alias, or one of another server, to which a request is sent."""
    here, there = operator.node, operator.there
    alice = there.user("alice")
    room_id, elsewhere = await there.create("12", alice), await there.create("12", alice)
    named_there = {"#kitchen:there.test": room_id, "#other:there.test": elsewhere, "#bad:there.test": "no id"}
    async with there.database.transaction() as connection:
        for alias, named_room in named_there.items():
            await insert_alias(connection, Alias(alias, named_room, alice, 1))
    await here.membership.join("#kitchen:there.test", here.user("bob"))
    async with here.database.transaction() as connection:
        await insert_alias(connection, Alias("#ours:here.test", room_id, here.user("bob"), 1))
    assert await find_room(here.homeserver, "#kitchen:there.test") == room_id
    assert await find_room(here.homeserver, "#ours:here.test") == room_id
    for alias, problem in {
        "#other:there.test": "which this node has not joined",
        "#bad:there.test": "which this node has not joined",
        "#none:there.test": "there.test answered 404",
        "#none:here.test": "has no alias",
        "#": "is not an alias",
    }.items():
        with pytest.raises(LocalError, match=problem):
            await find_room(here.homeserver, alias)


async def test_an_ambiguous_id_is_an_error(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message lists some matches."""
    monkeypatch.setattr(finding, "SHORTEST", 0)
    parts = operator.node.homeserver
    first, second = await named(operator, "A"), await named(operator, "B")
    with pytest.raises(LocalError, match="several rooms") as refused:
        await find_room(parts, "!")
    assert {first, second} == set(refused.value.problem.removesuffix(".").split(": ")[1].split(", "))
    with pytest.raises(LocalError, match=r"several events: .*, …\."):
        await find_event(parts, "$")


async def test_an_event_is_found_by_its_id_or_the_beginning_of_it(operator: Operator) -> None:
    """With or without the `$`, which shells interpret."""
    node = operator.node
    room_id = await named(operator, "Kitchen")
    event_id = await node.say(room_id, node.user("alice"), "hello")
    for text in (event_id, event_id[1:], event_id[:12], event_id[1:12]):
        assert (await find_event(node.homeserver, text)).pdu.event_id == event_id
    for text in ("$", "$nothing", "nothing"):
        with pytest.raises(LocalError, match="has no event"):
            await find_event(node.homeserver, text)


async def test_rooms_are_searched_page_by_page(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one order, whatever the batch size. The number of searched rooms is limited."""
    monkeypatch.setattr(finding, "AT_ONCE", 2)
    parts = operator.node.homeserver
    rooms = sorted([await named(operator, name) for name in ("Kitchen 1", "kitchen 2", "Cellar", "KITCHEN 3")])
    kitchens = [room for room in rooms if room != await find_room(parts, "Cellar")]
    found, on = await search(parts, "kitchen", "", 2)
    assert ([one.row.room_id for one in found], on) == (kitchens[:2], kitchens[1])
    found, on = await search(parts, "kitchen", kitchens[1], 2)
    assert ([one.row.room_id for one in found], on) == (kitchens[2:], None)
    [by_id], _ = await search(parts, rooms[0][3:20].upper(), "", 5)
    assert by_id.row.room_id == rooms[0]
    monkeypatch.setattr(finding, "MAX_SEARCHED", 2)
    with pytest.raises(LocalError, match="stopped after 2 rooms"):
        await search(parts, "nowhere", "", 2)
