"""Writes down who comes and goes and what is called."""

from dataclasses import replace

from bridge.connectors.offices.protocol.errors import interrupted
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.record_rows import read_body
from storage.offices.records import fetch_present_members, fetch_unanswered, fetch_unsent, list_calls
from tests.bridge.connectors.offices.connectors import room_parts
from tests.federation.nodes import Node

BOSS, HANDS = Member("s", AGENT, "boss", "a"), Member("t", COMPUTER, "hands", "a")


def relay(event: str = TOOL_CALL) -> Relay:
    return Relay(CLIENT_EVENTS[event], BOSS, HANDS, {"req_id": "1", "tool_name": "add", "params": {}}, 5.0)


def records_of(node: Node) -> OfficeRecords:
    """Nobody tells the rooms: it was not started."""
    parts = room_parts(node, [])
    return OfficeRecords(parts, (), report=parts.report)


async def test_a_call_and_its_answer_belong_together(node: Node) -> None:
    """By an id that nobody else gives."""
    written = records_of(node)
    ids = [await written.called(relay()) for _ in range(2)]
    assert len(set(ids)) == 2
    await written.answered(ids[0], relay(), {"isError": False}, written.began())
    async with node.database.transaction(readonly=True) as connection:
        calls = await list_calls(connection, "a", None, 10)
    assert {call.call_id: call.answer is not None for call in calls} == {ids[0]: True, ids[1]: False}
    await written.close()


async def test_a_call_may_bring_its_id(node: Node) -> None:
    """One by who is no member, and that is written down, too."""
    written = records_of(node)
    assert await written.called(replace(relay(), call_id="mine")) == "mine"
    async with node.database.transaction(readonly=True) as connection:
        [call] = await list_calls(connection, "a", None, 10)
    assert (call.call_id, read_body(call.call)["direct"]) == ("mine", True)
    await written.close()


async def test_tools_are_known_once_they_were_asked_for(node: Node) -> None:
    """By their names; who has left has none."""
    written = records_of(node)
    learned: list[object] = []
    written.learned = lambda: learned.append(written.tools("a", "hands"))
    assert written.tools("a", "hands") is None
    for tools in ([], [{"name": "add"}, {"name": "sub"}], [{"name": "add"}, {"name": "sub"}]):
        await written.looked(relay("client:get_tools"), {"tools": tools})
    assert learned == [(), ("add", "sub")]
    await written.left(HANDS)
    assert written.tools("a", "hands") is None
    await written.close()


async def test_tools_are_written_down_when_they_are_others(node: Node) -> None:
    """And again when their Computer comes back; what is no list of tools is none."""
    written = records_of(node)
    tool = {"name": "add", "description": "Adds", "params_schema": {}, "return_schema": None}
    look = relay("client:get_tools")
    for answer in ({"tools": [tool]}, {"tools": [tool]}, {"code": 404}, {"tools": [{**tool, "name": "sub"}]}):
        await written.looked(look, answer)
    await written.left(HANDS)
    await written.looked(look, {"tools": [{**tool, "name": "sub"}]})
    await written.looked(relay("client:get_config"), {"tools": [tool]})
    async with node.database.transaction(readonly=True) as connection:
        kinds = [row.kind for row in await fetch_unsent(connection, 10)]
    assert kinds == ["tools", "tools", "left", "tools"]
    await written.close()


async def test_whoever_was_there_when_the_process_ended_is_there_no_more(node: Node) -> None:
    """Once: it is written down with the next start."""
    written = records_of(node)
    for member in (BOSS, HANDS):
        await written.joined(member, None)
    await written.close()
    for _ in range(2):
        again = records_of(node)
        await again.start()
        await again.close()
    async with node.database.transaction(readonly=True) as connection:
        assert await fetch_present_members(connection) == []
        rows = await connection.fetch("SELECT kind FROM office_records ORDER BY position")
    assert [row["kind"] for row in rows] == ["joined", "joined", "left", "left"]


async def test_calls_of_a_process_that_has_ended_are_answered_once(node: Node) -> None:
    """By the next start, whatever a kill left of the one before: with a result that says so. Those of a
    process that is alive go on."""
    killed, alive = records_of(node), records_of(node)
    await alive.start()
    await killed.joined(BOSS, None)
    ids = [await killed.called(relay()) for _ in range(3)]
    await killed.answered(ids[0], relay(), {"isError": False}, killed.began())
    going_on = await alive.called(relay())
    for _ in range(2):
        again = records_of(node)
        await again.start()
        await again.close()
    await alive.close()
    async with node.database.transaction(readonly=True) as connection:
        assert [call_id for _, call_id, _ in await fetch_unanswered(connection)] == [going_on]
        assert await fetch_present_members(connection) == []
        calls = {call.call_id: call for call in await list_calls(connection, "a", None, 10)}
    assert len(calls) == 4
    for call_id in ids[1:]:
        answer = calls[call_id].answer
        assert answer is not None
        assert read_body(answer)["answer"] == interrupted()
    await killed.close()


async def test_who_is_connected_to_a_process_that_is_alive_stays(node: Node) -> None:
    """Another one begins beside it."""
    alive, other = records_of(node), records_of(node)
    await alive.start()
    await alive.joined(BOSS, None)
    await other.start()
    async with node.database.transaction(readonly=True) as connection:
        assert len(await fetch_present_members(connection)) == 1
    await alive.close()
    await other.close()
