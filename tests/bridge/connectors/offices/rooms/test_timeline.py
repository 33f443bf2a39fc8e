"""What the room of an office is told."""

import asyncio
from collections.abc import Sequence
from typing import Any

from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms import timeline as module
from bridge.connectors.offices.rooms.call_events import CALL, DIGEST, RESULT
from bridge.connectors.offices.rooms.office_room import MEMBER, SEAT, TOOLS, alias, member_address
from bridge.connectors.offices.rooms.timeline import told_together
from federation.events.room_event import RoomEvent
from storage.offices import records as office_records
from storage.offices.records import RecordRow
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node

DONE = {"meta": None, "content": [{"type": "text", "text": "3"}], "structuredContent": None, "isError": False}
PICTURE = {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}], "isError": False}


async def told(node: Node, office_id: str = "a") -> list[RoomEvent]:
    """All of the office's room, once nothing is left to tell."""
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
    """Each with the part that is for programs."""
    return [
        (key.rpartition(".")[2], event.content[key], event)
        for event in events
        for key in (CALL, RESULT, DIGEST)
        if key in event.content
    ]


def key_of(name: str, node: Node) -> str:
    return f"@a/{name}:{node.name}"


async def test_an_office_is_a_room(node: Node) -> None:
    """Who is in it, who has the seat; and who has left."""
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        room_id = (await told(node))[0].room_id
        for name, role in (("boss", "agent"), ("hands", "computer")):
            member = await node.rooms.state_event(room_id, MEMBER, key_of(name, node))
            assert member is not None
            said = {field: member.content[field] for field in ("role", "name", "node", "a2c_version")}
            assert said == {"role": role, "name": name, "node": "here.test", "a2c_version": "0.4.0"}
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
        await told(node)
        seat = await node.rooms.state_event(room_id, SEAT)
        assert seat is not None
        assert seat.content == {}


async def test_a_call_is_a_thread(node: Node) -> None:
    """Its parameters are shown, but for what is secret; its result is in it, as a file if it is no text."""
    async with offices_of(node, mask=("badge",)) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        computer.answers[TOOL_CALL] = DONE
        await agent.call("hands", "1", a=1, b=2, password="hunter2", badge="0815")
        computer.answers[TOOL_CALL] = PICTURE
        await agent.call("hands", "2")
        events = await told(node)
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


async def test_what_fails_is_told_too(node: Node) -> None:
    """That nobody answered, with what the Agent was told."""
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        computer.answers[TOOL_CALL] = asyncio.Future()
        calling = asyncio.create_task(agent.call("hands"))
        await computer.until(TOOL_CALL)
        await computer.close()
        assert (await calling)["code"] == 404
        [_, result] = of_calls(await told(node))
        assert result[1]["outcome"] == "not_found"


async def test_what_a_computer_can_is_state(node: Node) -> None:
    """Once for each change."""
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        tool = {"name": "add", "description": "Adds\ntwo", "params_schema": {}, "return_schema": None}
        for tools in ([tool], [tool], [{**tool, "name": "sub"}]):
            computer.answers["client:get_tools"] = {"tools": tools, "req_id": "tools"}
            await agent.tools("hands")
        events = await told(node)
        [first, second] = [event for event in events if event.type == TOOLS]
        assert [one["name"] for one in first.content["tools"]] == ["add"]
        assert [one["name"] for one in second.content["tools"]] == ["sub"]
        assert second.state_key == key_of("hands", node)


async def test_many_calls_are_one_message(node: Node, monkeypatch: Any) -> None:
    """Each of them is in one, once; whoever looks back has them all."""
    monkeypatch.setattr(module, "CALM", 4)
    async with offices_of(node) as (running, connector, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        await told(node)
        computer.answers[TOOL_CALL] = DONE
        recording, are_made = connector._records._recording, asyncio.Event()
        tell = recording._tell

        async def tell_later() -> int:
            await are_made.wait()
            return await tell()

        monkeypatch.setattr(recording, "_tell", tell_later)
        await asyncio.gather(*(agent.call("hands", f"{number}") for number in range(60)))
        are_made.set()
        for number in range(60, 90):
            await agent.call("hands", f"{number}")
        events = of_calls(await told(node))
        digests = [part for kind, part, _ in events if kind == "digest"]
        gathered = [call["req_id"] for part in digests for call in part["calls"]]
        alone = [part["req_id"] for kind, part, _ in events if kind == "call"]
        assert digests
        assert sorted([*gathered, *alone], key=int) == [f"{number}" for number in range(90)]
        assert len([1 for kind, _, _ in events if kind == "result"]) == len(alone)


async def test_one_call_after_the_other_is_much_at_once(node: Node, monkeypatch: Any) -> None:
    """Where they come in quick succession: what happens is told four times a second."""
    monkeypatch.setattr(module, "CALM", 4)
    monkeypatch.setattr(module, "GATHERED_FOR", 1.0)
    async with offices_of(node) as (running, _, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        await told(node)
        computer.answers[TOOL_CALL] = DONE
        for number in range(20):
            await agent.call("hands", f"{number}")
        events = of_calls(await told(node))
        assert sum(len(part["calls"]) for kind, part, _ in events if kind == "digest") >= 10


async def test_nothing_is_told_twice(node: Node) -> None:
    """Told again after a kill, it is the same; who was there then is there no more."""
    async with offices_of(node) as (running, connector, tokens):
        token = await tokens.create("all", ["agent", "computer"])
        agent, computer = await running.agent(token=token), await running.computer(token=token)
        computer.answers[TOOL_CALL] = DONE
        await agent.call("hands")
        before = [event.event_id for event in await told(node)]
        await connector._records._recording.close()
    async with node.database.transaction() as connection:
        # As if it had been killed: nobody has left, and of what was told nothing is known.
        await connection.execute("DELETE FROM office_records WHERE kind = 'left'")
        await connection.execute("UPDATE office_records SET event_id = NULL WHERE kind <> 'joined'")
    async with offices_of(node):
        events = await told(node)
        assert len(of_calls(events)) == 2
        assert [event.event_id for event in events][: len(before)] == before
        room_id = events[0].room_id
        for name in ("boss", "hands"):
            member = await node.rooms.state_event(room_id, MEMBER, key_of(name, node))
            assert member is not None
            assert member.content == {}


def row(position: int, kind: str, call_id: str | None = None, office_id: str = "a") -> RecordRow:
    return RecordRow(position, office_id, kind, call_id, b"{}", 1)


def test_where_much_happens_calls_are_told_together() -> None:
    """With their answers, up to fifty in a message; what has no answer yet, and all else, is told alone."""
    rows = [
        row(1, "joined"),
        *(row(2 + n, "called", f"{n}") for n in range(60)),
        *(row(70 + n, "answered", f"{n}") for n in range(55)),
        row(200, "called", "x", "b"),
        row(201, "answered", "x", "b"),
    ]
    told_as = told_together(rows)
    assert told_as[1] == 1
    assert {told_as[2 + n] for n in range(50)} == {told_as[70 + n] for n in range(50)} == {2}
    assert {told_as[2 + n] for n in range(50, 55)} == {told_as[70 + n] for n in range(50, 55)} == {52}
    assert [told_as[2 + n] for n in range(55, 60)] == [2 + n for n in range(55, 60)]
    assert (told_as[200], told_as[201]) == (200, 201)
    assert told_together([]) == {}
