"""Recording joins, leaves, calls and tools."""

from dataclasses import replace

from bridge.connectors.offices.protocol.errors import interrupted
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.record_rows import read_body
from storage.offices.records import fetch_present_members, fetch_unanswered, fetch_unsent, list_calls
from tests.bridge.connectors.offices.connectors import room_parts
from tests.federation.nodes import Node

BOSS, HANDS = Member("s", AGENT, "boss", "a"), Member("t", COMPUTER, "hands", "a")


def relay(event: str = TOOL_CALL) -> RelayRequest:
    return RelayRequest(CLIENT_EVENTS[event], BOSS, HANDS, {"req_id": "1", "tool_name": "add", "params": {}}, 5.0)


def records_of(node: Node) -> OfficeRecords:
    """Without `start`, nothing is sent to rooms."""
    parts = room_parts(node, [])
    return OfficeRecords(parts, (), report=parts.report)


async def test_a_call_and_its_answer_share_an_id(node: Node) -> None:
    """Which is unique."""
    log = records_of(node)
    ids = [await log.record_call(relay()) for _ in range(2)]
    assert len(set(ids)) == 2
    await log.record_answer(ids[0], relay(), {"isError": False}, log.monotonic())
    async with node.database.transaction(readonly=True) as connection:
        calls = await list_calls(connection, "a", None, 10)
    assert {call.call_id: call.answer is not None for call in calls} == {ids[0]: True, ids[1]: False}
    await log.close()


async def test_a_direct_call_has_its_own_id(node: Node) -> None:
    """And is marked as direct."""
    log = records_of(node)
    assert await log.record_call(replace(relay(), call_id="mine")) == "mine"
    async with node.database.transaction(readonly=True) as connection:
        [call] = await list_calls(connection, "a", None, 10)
    assert (call.call_id, read_body(call.call)["direct"]) == ("mine", True)
    await log.close()


async def test_tools_are_known_once_they_were_queried(node: Node) -> None:
    """By name, until the Computer leaves."""
    log = records_of(node)
    changes: list[object] = []
    log.on_tools_changed = lambda: changes.append(log.tools("a", "hands"))
    assert log.tools("a", "hands") is None
    for tools in ([], [{"name": "add"}, {"name": "sub"}], [{"name": "add"}, {"name": "sub"}]):
        await log.record_tools(relay("client:get_tools"), {"tools": tools})
    assert changes == [(), ("add", "sub")]
    await log.record_left(HANDS)
    assert log.tools("a", "hands") is None
    await log.close()


async def test_tools_are_recorded_when_they_change(node: Node) -> None:
    """And after the Computer has joined again. Other answers are ignored."""
    log = records_of(node)
    tool = {"name": "add", "description": "Adds", "params_schema": {}, "return_schema": None}
    request = relay("client:get_tools")
    for answer in ({"tools": [tool]}, {"tools": [tool]}, {"code": 404}, {"tools": [{**tool, "name": "sub"}]}):
        await log.record_tools(request, answer)
    await log.record_left(HANDS)
    await log.record_tools(request, {"tools": [{**tool, "name": "sub"}]})
    await log.record_tools(relay("client:get_config"), {"tools": [tool]})
    async with node.database.transaction(readonly=True) as connection:
        kinds = [row.kind for row in await fetch_unsent(connection, 10)]
    assert kinds == ["tools", "tools", "left", "tools"]
    await log.close()


async def test_members_of_an_ended_process_are_recorded_as_left(node: Node) -> None:
    """Once, at the next start."""
    log = records_of(node)
    for member in (BOSS, HANDS):
        await log.record_joined(member, None)
    await log.close()
    for _ in range(2):
        again = records_of(node)
        await again.start()
        await again.close()
    async with node.database.transaction(readonly=True) as connection:
        assert await fetch_present_members(connection) == []
        rows = await connection.fetch("SELECT kind FROM office_records ORDER BY position")
    assert [row["kind"] for row in rows] == ["joined", "joined", "left", "left"]


async def test_calls_of_an_ended_process_are_answered_once(node: Node) -> None:
    """At the next start, with a result that says they were interrupted. Calls of a running process are left
    alone."""
    killed, alive = records_of(node), records_of(node)
    await alive.start()
    await killed.record_joined(BOSS, None)
    ids = [await killed.record_call(relay()) for _ in range(3)]
    await killed.record_answer(ids[0], relay(), {"isError": False}, killed.monotonic())
    going_on = await alive.record_call(relay())
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


async def test_members_of_a_running_process_stay(node: Node) -> None:
    """While another one starts."""
    alive, other = records_of(node), records_of(node)
    await alive.start()
    await alive.record_joined(BOSS, None)
    await other.start()
    async with node.database.transaction(readonly=True) as connection:
        assert len(await fetch_present_members(connection)) == 1
    await alive.close()
    await other.close()
