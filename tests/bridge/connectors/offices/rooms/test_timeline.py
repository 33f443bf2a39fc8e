"""The state and messages in the room of an office."""

import asyncio
from collections.abc import Sequence
from typing import Any

from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms import timeline as module
from bridge.connectors.offices.rooms.call_events import CALL, DIGEST, RESULT
from bridge.connectors.offices.rooms.office_room import MEMBER, SEAT, TOOLS, alias, member_address
from bridge.connectors.offices.rooms.timeline import group_into_messages
from federation.events.room_event import RoomEvent
from storage.offices import records as office_records
from storage.offices.records import RecordRow
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node

DONE = {"meta": None, "content": [{"type": "text", "text": "3"}], "structuredContent": None, "isError": False}
PICTURE = {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}], "isError": False}


async def published(node: Node, office_id: str = "a") -> list[RoomEvent]:
    """All events of the office's room, once no records are pending."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            async with node.database.transaction(readonly=True) as connection:
                if not await office_records.fetch_unsent(connection, 1):
                    break
            await asyncio.sleep(0.01)
    found = await node.rooms.resolve_alias(alias(office_id, node.name))
    assert found is not None
    return list((await node.rooms.messages(found[0], limit=1_000)).events)[::-1]


def of_calls(events: Sequence[RoomEvent]) -> list[tuple[str, dict[str, Any], RoomEvent]]:
    """Each with its machine-readable part."""
    return [
        (key.rpartition(".")[2], event.content[key], event)
        for event in events
        for key in (CALL, RESULT, DIGEST)
        if key in event.content
    ]


def key_of(name: str, node: Node) -> str:
    return f"@a/{name}:{node.name}"


async def test_members_are_state_of_the_room(node: Node) -> None:
    """With the Agent's seat. The content is empty after they have left."""
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        room_id = (await published(node))[0].room_id
        for name, role in (("boss", "agent"), ("hands", "computer")):
            member = await node.rooms.state_event(room_id, MEMBER, key_of(name, node))
            assert member is not None
            shown = {field: member.content[field] for field in ("role", "name", "node", "a2c_version")}
            assert shown == {"role": role, "name": name, "node": "here.test", "a2c_version": "0.4.0"}
        seat = await node.rooms.state_event(room_id, SEAT)
        assert seat is not None
        assert seat.content["user"] == seat.sender == key_of("boss", node)
        assert seat.content["address"] == str(member_address("a", "boss", node.name))
        names = {member.displayname for member in await node.rooms.members(room_id)}
        assert len(names) == 3
        await agent.leave()
        await computer.close()
        async with asyncio.timeout(TIMEOUT):
            while len(await node.rooms.members(room_id)) > 1:
                await asyncio.sleep(0.01)
        await published(node)
        seat = await node.rooms.state_event(room_id, SEAT)
        assert seat is not None
        assert seat.content == {}


async def test_a_call_is_a_thread(node: Node) -> None:
    """With its masked parameters, and its result as text or as a file."""
    async with offices_of(node, mask=("badge",)) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        computer.answers[TOOL_CALL] = DONE
        await agent.call("hands", "1", a=1, b=2, password="hunter2", badge="0815")
        computer.answers[TOOL_CALL] = PICTURE
        await agent.call("hands", "2")
        events = await published(node)
        assert "hunter2" not in str([event.content for event in events])
        assert "0815" not in str([event.content for event in events])
        first, result, second, picture = of_calls(events)
        assert (first[0], result[0], second[0], picture[0]) == ("call", "result", "call", "result")
        assert first[1]["params"]["a"] == 1
        assert sorted(first[1]["hidden"]) == ["/badge", "/password"]
        assert result[2].content["m.relates_to"]["event_id"] == first[2].event_id
        assert (result[1]["outcome"], picture[1]["outcome"]) == ("done", "done")
        [file] = [event for event in events if event.content.get("msgtype") == "m.file"]
        assert picture[1]["media"][0]["mxc"] == file.content["url"]
        async with node.database.connection() as connection:
            kept = await connection.fetch("SELECT body FROM office_records")
        assert all(b"hunter2" not in row["body"] for row in kept)


async def test_a_failed_call_has_a_result(node: Node) -> None:
    """With the error that the Agent received."""
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        computer.answers[TOOL_CALL] = asyncio.Future()
        calling = asyncio.create_task(agent.call("hands"))
        await computer.wait_for(TOOL_CALL)
        await computer.close()
        assert (await calling)["code"] == 404
        [_, result] = of_calls(await published(node))
        assert result[1]["outcome"] == "not_found"


async def test_tools_are_state_of_the_room(node: Node) -> None:
    """One event for each change."""
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        tool = {"name": "add", "description": "Adds\ntwo", "params_schema": {}, "return_schema": None}
        for tools in ([tool], [tool], [{**tool, "name": "sub"}]):
            computer.answers["client:get_tools"] = {"tools": tools, "req_id": "tools"}
            await agent.tools("hands")
        events = await published(node)
        [first, second] = [event for event in events if event.type == TOOLS]
        assert [one["name"] for one in first.content["tools"]] == ["add"]
        assert [one["name"] for one in second.content["tools"]] == ["sub"]
        assert second.state_key == key_of("hands", node)


async def test_many_calls_are_combined(node: Node, monkeypatch: Any) -> None:
    """Each call is in exactly one message."""
    monkeypatch.setattr(module, "MAX_SINGLE_RECORDS", 4)
    async with offices_of(node) as (running, connector, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        await published(node)
        computer.answers[TOOL_CALL] = DONE
        timeline, is_released = connector._records._timeline, asyncio.Event()
        publish_batch = timeline._publish_batch

        async def publish_later() -> int:
            await is_released.wait()
            return await publish_batch()

        monkeypatch.setattr(timeline, "_publish_batch", publish_later)
        await asyncio.gather(*(agent.call("hands", f"{number}") for number in range(60)))
        is_released.set()
        for number in range(60, 90):
            await agent.call("hands", f"{number}")
        events = of_calls(await published(node))
        digests = [part for kind, part, _ in events if kind == "digest"]
        combined = [call["req_id"] for part in digests for call in part["calls"]]
        single = [part["req_id"] for kind, part, _ in events if kind == "call"]
        assert digests
        assert sorted([*combined, *single], key=int) == [f"{number}" for number in range(90)]
        assert len([1 for kind, _, _ in events if kind == "result"]) == len(single)


async def test_calls_in_quick_succession_are_combined(node: Node, monkeypatch: Any) -> None:
    """Records are sent a few times per second."""
    monkeypatch.setattr(module, "MAX_SINGLE_RECORDS", 4)
    monkeypatch.setattr(module, "BATCH_INTERVAL", 1.0)
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        await published(node)
        computer.answers[TOOL_CALL] = DONE
        for number in range(20):
            await agent.call("hands", f"{number}")
        events = of_calls(await published(node))
        assert sum(len(part["calls"]) for kind, part, _ in events if kind == "digest") >= 10


async def test_nothing_is_published_twice(node: Node) -> None:
    """After a kill the same events are sent again, and the members of the killed process leave."""
    async with offices_of(node) as (running, connector, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        computer.answers[TOOL_CALL] = DONE
        await agent.call("hands")
        before = [event.event_id for event in await published(node)]
        await connector._records._timeline.close()
    async with node.database.transaction() as connection:
        # As if killed: no member has left, and it is not recorded which events were sent.
        await connection.execute("DELETE FROM office_records WHERE kind = 'left'")
        await connection.execute("UPDATE office_records SET event_id = NULL WHERE kind <> 'joined'")
    async with offices_of(node):
        events = await published(node)
        assert len(of_calls(events)) == 2
        assert [event.event_id for event in events][: len(before)] == before
        room_id = events[0].room_id
        for name in ("boss", "hands"):
            member = await node.rooms.state_event(room_id, MEMBER, key_of(name, node))
            assert member is not None
            assert member.content == {}


def row(position: int, kind: str, call_id: str | None = None, office_id: str = "a") -> RecordRow:
    return RecordRow(position, office_id, kind, call_id, b"{}", 1)


def test_calls_of_a_busy_office_are_grouped() -> None:
    """With their answers, up to fifty per message. Unanswered calls and other records are sent one by one."""
    rows = [
        row(1, "joined"),
        *(row(2 + n, "called", f"{n}") for n in range(60)),
        *(row(70 + n, "answered", f"{n}") for n in range(55)),
        row(200, "called", "x", "b"),
        row(201, "answered", "x", "b"),
    ]
    message_of = group_into_messages(rows)
    assert message_of[1] == 1
    assert {message_of[2 + n] for n in range(50)} == {message_of[70 + n] for n in range(50)} == {2}
    assert {message_of[2 + n] for n in range(50, 55)} == {message_of[70 + n] for n in range(50, 55)} == {52}
    assert [message_of[2 + n] for n in range(55, 60)] == [2 + n for n in range(55, 60)]
    assert (message_of[200], message_of[201]) == (200, 201)
    assert group_into_messages([]) == {}
