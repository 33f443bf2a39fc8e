"""The Socket.IO server, row by row of both tables of what was decided."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import socketio

from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, NAMESPACE, TOOL_CALL
from bridge.connectors.offices.server import socket_io
from tests.bridge.connectors.offices.clients import TIMEOUT, Running, offices_on
from tests.bridge.connectors.offices.protocol.test_shape import GOOD

RESULT = {
    "meta": {"x": 1},
    "content": [{"type": "text", "text": "3", "_meta": {"a2c_blob_handle": "h"}}],
    "structuredContent": None,
    "isError": False,
}
NOBODY = {"code": 404, "message": "Computer with name 'feet' not found", "details": {"computer_name": "feet"}}


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with offices_on() as made:
        yield made


# ---- coming and going ---------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "wrong", 5, "x" * 5_000])
async def test_who_shows_no_token_is_refused(running: Running, token: Any) -> None:
    """By Socket.IO's own refusal, and nothing stays of it."""
    with pytest.raises(socketio.exceptions.ConnectionError):
        await running.client(token)
    assert running.server._connections == {}


@pytest.mark.parametrize("name", ["x-api-key", "access_token"])
async def test_clients_of_before_the_handshake_show_it_in_a_header(running: Running, name: str) -> None:
    """Only they: with a version a header is no credential."""
    client = await running.client(None, None, headers={name: "any"})
    assert await client.join("agent", "boss") == [True, None]
    with pytest.raises(socketio.exceptions.ConnectionError):
        await running.client(None, headers={name: "any"})


@pytest.mark.parametrize("transports", [["polling"], ["websocket"], None])
async def test_both_transports_lead_there(running: Running, transports: list[str] | None) -> None:
    """And the one is upgraded to the other."""
    agent = await running.agent(transports=transports)
    computer = await running.computer(transports=transports)
    computer.answers[TOOL_CALL] = RESULT
    assert await agent.call("hands") == RESULT


@pytest.mark.parametrize("body", ["0", "4" + "x" * 1_010_000], ids=["unknown packet", "too long"])
async def test_a_refused_post_is_answered(running: Running, body: str) -> None:
    """Though its client never asks again for what is queued for it. Nobody needs a token to get this far."""
    where = f"{running.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT)) as session:
        async with session.get(where) as answer:
            sid = json.loads((await answer.text())[1:])["sid"]
        async with session.post(f"{where}&sid={sid}", data=body) as answer:
            assert answer.status == 400
        async with session.post(f"{where}&sid={sid}", data="40/smcp,") as answer:
            assert (answer.status, "Invalid session" in await answer.text()) == (400, True)


async def test_a_websocket_that_says_nothing_is_closed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a client that polls changes over to it, which needs no token."""
    monkeypatch.setattr(socket_io, "SILENCE", 0.05)
    where = f"{running.url}/socket.io/?EIO=4&a2c_version=0.4.0"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{where}&transport=polling") as answer:
            sid = json.loads((await answer.text())[1:])["sid"]
        async with session.ws_connect(f"{where}&transport=websocket&sid={sid}") as silent:
            said = await silent.receive(timeout=TIMEOUT)
            assert said.type is aiohttp.WSMsgType.CLOSE


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_the_version_is_judged_before_socket_io(running: Running, transport: str) -> None:
    """With the published status, header and body; only at the path itself."""
    async with aiohttp.ClientSession() as session:
        query = f"EIO=4&transport={transport}&a2c_version=9.9.9"
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        headers = upgrade if transport == "websocket" else {}
        async with session.get(f"{running.url}/socket.io/?{query}", headers=headers) as answer:
            assert (answer.status, answer.headers["x-a2c-error-code"]) == (400, "4008")
            assert (await answer.json())["code"] == 4008
        async with session.get(f"{running.url}/socket.iox/?{query}") as answer:
            assert answer.status == 404


async def test_a_path_of_ones_own_is_served() -> None:
    async with offices_on(path="/offices/io") as running:
        client = await running.client(path="offices/io")
        assert await client.join("agent", "boss") == [True, None]


async def test_a_token_says_which_roles_and_offices(running: Running) -> None:
    """A refused join says why, and leaves nothing."""
    boss = await running.client("agents")
    refused = await boss.join("computer", "hands")
    assert refused == [False, "The token is not for the role computer"]
    cook = await running.client("kitchen")
    assert await cook.join("agent", "cook", "cellar") == [False, "The token is not for this office"]
    assert await cook.join("agent", "cook", "kitchen 7") == [True, None]


async def test_the_others_are_told_who_comes_and_goes(running: Running) -> None:
    """The comer after it has come in, the goer before it is out; oneself never."""
    agent, computer = await running.agent(), await running.computer()
    assert await agent.until("notify:enter_office") == {"office_id": "a", "computer": "hands"}
    assert await computer.leave() == [True, None]
    assert await agent.until("notify:leave_office") == {"office_id": "a", "computer": "hands"}
    assert await computer.leave() == [False, "Not in office"]
    assert await computer.join("computer", "hands") == [True, None]
    await agent.close()
    assert await computer.until("notify:leave_office") == {"office_id": "a", "agent": "boss"}
    assert await computer.quiet() == []


async def test_a_computer_moves(running: Running) -> None:
    """And is heard of in both offices."""
    here, there = await running.agent(), await running.agent("chief", "b")
    computer = await running.computer()
    assert await computer.join("computer", "hands", "b") == [True, None]
    assert await here.until("notify:leave_office") == {"office_id": "a", "computer": "hands"}
    assert await there.until("notify:enter_office") == {"office_id": "b", "computer": "hands"}
    assert (await here.tools("hands"))["code"] == 404


async def test_a_refused_join_hears_nothing(running: Running) -> None:
    """It is in no room: not even what everybody there is told."""
    agent, rival = await running.agent(), await running.client()
    assert await rival.join("agent", "rival") == [False, "Room already has an agent"]
    computer = await running.computer()
    await computer.tell("server:update_config", {"computer": "hands"})
    await agent.until("notify:update_config")
    assert await rival.quiet() == []
    assert (await agent.list_room())["sessions"][-1]["name"] == "hands"
    assert len((await agent.list_room())["sessions"]) == 2


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (None, "object"),
        ([], "object"),
        ({}, "'role'"),
        ({"role": "boss", "name": "x", "office_id": "a"}, "'role'"),
        ({"role": "agent", "name": "", "office_id": "a"}, "'name'"),
        ({"role": "agent", "name": "x", "office_id": 5}, "'office_id'"),
        ({"role": "agent", "name": "x" * 300, "office_id": "a"}, "'name'"),
    ],
)
async def test_a_malformed_join_names_the_field(running: Running, said: Any, field: str) -> None:
    client = await running.client()
    answer = await client.ask("server:join_office", said)
    assert answer[0] is False
    assert field in answer[1]
    assert (await client.ask("server:leave_office", {"office_id": None}))[0] is False


async def test_who_asks_right_after_joining_is_in(running: Running) -> None:
    """Published Agents do not wait for the answer to their join."""
    computer = await running.computer()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "tools"}
    agent = await running.client()
    await agent.tell("server:join_office", {"role": "agent", "name": "boss", "office_id": "a"})
    assert await agent.tools("hands") == {"tools": [], "req_id": "tools"}


async def test_two_agents_at_once_are_one(running: Running) -> None:
    """One seat, however close they come."""
    clients = [await running.client() for _ in range(5)]
    answers = await asyncio.gather(*(one.join("agent", f"{n}") for n, one in enumerate(clients)))
    assert sorted(answer[0] for answer in answers) == [False] * 4 + [True]


async def test_when_the_server_stops_everybody_leaves() -> None:
    """And is told so."""
    async with offices_on() as running:
        agent, computer = await running.agent(), await running.computer()
        await running.server.close()
        for one in (agent, computer):
            async with asyncio.timeout(TIMEOUT):
                await one.io.wait()
        assert await computer.until("notify:leave_office") == {"office_id": "a", "agent": "boss"}
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client()


async def test_who_is_gone_is_gone_although_it_cannot_be_written_down(running: Running) -> None:
    """The seat is free, whoever waits is answered, and the operator is told."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = asyncio.create_task(agent.call("hands", seconds=3_000))
    await computer.until(TOOL_CALL)
    written = running.written
    assert written is not None
    written.fails = OSError("full")
    await computer.close()
    assert (await calling)["code"] == 404
    assert [one["name"] for one in (await agent.list_room())["sessions"]] == ["boss"]
    assert any("could not be written down" in one for one in running.problems)
    running.problems.clear()
    written.fails = None
    assert await (await running.client()).join("computer", "hands") == [True, None]


async def test_a_move_that_cannot_be_written_down_is_none(running: Running) -> None:
    """It stays where it was, and is told so."""
    agent, computer = await running.agent(), await running.computer()
    written = running.written
    assert written is not None
    written.fails = OSError("full")
    assert await computer.join("computer", "hands", "b") == [False, "Internal server error"]
    written.fails = None
    running.problems.clear()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "tools"}
    assert await agent.tools("hands") == {"tools": [], "req_id": "tools"}


async def test_more_connections_than_there_may_be_are_refused() -> None:
    async with offices_on(max_connections=2) as running:
        first = await running.client()
        await running.client()
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client()
        await first.close()
        async with asyncio.timeout(TIMEOUT):
            while len(running.server._connections) == 2:
                await asyncio.sleep(0)
        await running.client()


# ---- asking -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", CLIENT_EVENTS)
async def test_what_is_asked_is_brought_and_its_answer_brought_back(running: Running, event: str) -> None:
    """As both were said, whatever they hold."""
    agent, computer = await running.agent(), await running.computer()
    said = {name: GOOD[kind] for name, kind in CLIENT_EVENTS[event].required.items()}
    said |= {"computer": "hands", "timeout": 5, "unheard_of": [1, {"a": None}]}
    computer.answers[event] = {"req_id": "a", "_meta": {"deep": [True]}, "tools": "ü"}
    assert await agent.ask(event, said) == computer.answers[event]
    assert await computer.until(event) == said


async def test_binary_answers_come_back_whole(running: Running) -> None:
    """Large ones too, and flat errors of the Computer unchanged."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers["client:get_tools"] = {
        "code": 4014,
        "message": "x",
        "mcp_server": "y",
        "details": {"z": 1},
    }
    assert await agent.tools("hands") == computer.answers["client:get_tools"]
    computer.answers["client:get_tools"] = {"tools": ["x" * 300_000], "blob": b"\0\1", "req_id": "tools"}
    assert await agent.tools("hands") == computer.answers["client:get_tools"]


@pytest.mark.parametrize("answer", [None, [], "text", 5])
async def test_an_answer_that_is_none_is_said_to_be_none(running: Running, answer: Any) -> None:
    """An empty one would crash the Agent."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers["client:get_tools"] = answer
    refused = await agent.tools("hands")
    assert (refused["code"], refused["details"]) == (404, {"reason": "event_not_supported"})


async def test_isolation_is_answered_at_once(running: Running) -> None:
    """Nobody, another office, no office, another role: flat, and the Computer is never asked."""
    agent, stranger = await running.agent(), await running.client()
    feet = await running.computer("feet", "b")
    assert await agent.tools("feet") == NOBODY
    assert await stranger.tools("feet") == NOBODY
    assert (await feet.tools("feet"))["code"] == 403
    assert (await agent.tools("boss"))["code"] == 404
    assert (await agent.ask(TOOL_CALL, {"computer": "feet"}))["code"] == 400
    for odd in ("client:unheard_of", "notify:enter_office", "agent:x", "server:unheard_of", "x" * 5_000):
        assert (await agent.ask(odd, {}))["code"] == 400
    await agent.tell("notify:enter_office", {"office_id": "b", "computer": "spy"})
    assert await feet.quiet() == []


async def test_the_letter_says_more() -> None:
    async with offices_on(profile="spec") as running:
        agent, stranger = await running.agent(), await running.client()
        await running.computer("feet", "b")
        assert (await agent.tools("feet"))["code"] == 4104
        assert (await stranger.tools("feet"))["code"] == 4103
        assert (await stranger.list_room())["code"] == 4103


async def test_a_computer_that_goes_is_answered_for(running: Running) -> None:
    """At once, whether its connection ends or it leaves."""
    for leaves in (True, False):
        agent, computer = await running.agent(), await running.computer()
        computer.answers[TOOL_CALL] = asyncio.Future()
        calling = asyncio.create_task(agent.call("hands", seconds=3_000))
        await computer.until(TOOL_CALL)
        await (computer.leave() if leaves else computer.close())
        async with asyncio.timeout(TIMEOUT):
            answer = await calling
        assert (answer["code"], answer["details"]) == (404, {"computer_name": "hands"})
        await agent.leave()


async def test_a_call_that_takes_too_long_is_stopped(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Computer is told, the Agent gets a result that says so."""
    monkeypatch.setattr("bridge.connectors.offices.protocol.relay.SLACK", 0.0)
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    answer = await agent.call("hands", "late", seconds=1)
    assert (answer["isError"], answer["meta"]) == (True, {"a2c_timeout": True})
    assert await computer.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "late"}


async def test_what_is_not_answered_ends_too() -> None:
    async with offices_on(relay_timeout=0.2) as running:
        agent, computer = await running.agent(), await running.computer()
        computer.answers["client:get_tools"] = asyncio.Future()
        assert (await agent.tools("hands"))["code"] == 408


async def test_an_agent_takes_its_call_back(running: Running) -> None:
    """Whoever has the call is told; nobody else's call is touched."""
    agent, computer = await running.agent(), await running.computer()
    stranger = await running.agent("chief", "b")
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    calling = asyncio.create_task(agent.call("hands", "mine"))
    await computer.until(TOOL_CALL)
    await stranger.tell("server:tool_call_cancel", {"agent": "x", "req_id": "mine"})
    await stranger.quiet()
    await agent.tell("server:tool_call_cancel", {"agent": "boss", "req_id": "other"})
    await agent.quiet()
    assert await computer.quiet() == []
    await agent.tell("server:tool_call_cancel", {"agent": "boss", "req_id": "mine"})
    assert await computer.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "mine"}
    answer.set_result({**RESULT, "meta": {"a2c_cancelled": True}})
    assert (await calling)["meta"] == {"a2c_cancelled": True}


async def test_an_agent_that_goes_has_its_calls_stopped(running: Running) -> None:
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = asyncio.create_task(agent.call("hands", "orphan"))
    await computer.until(TOOL_CALL)
    await agent.close()
    assert await computer.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "orphan"}
    calling.cancel()


async def test_a_call_that_is_repeated_is_made_once(running: Running) -> None:
    """While it is under way; both get the one result. Other requests use one id again and again."""
    agent, computer = await running.agent(), await running.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    calls = [asyncio.create_task(agent.call("hands", "same")) for _ in range(3)]
    await computer.until(TOOL_CALL)
    assert await computer.quiet() == []
    answer.set_result(RESULT)
    assert await asyncio.gather(*calls) == [RESULT] * 3
    assert await agent.call("hands", "same") == RESULT
    await computer.until(TOOL_CALL)


async def test_more_calls_than_there_may_be_are_refused() -> None:
    async with offices_on(most_calls_in_flight=2) as running:
        agent, computer = await running.agent(), await running.computer()
        answer: asyncio.Future[Any] = asyncio.Future()
        computer.answers[TOOL_CALL] = answer
        calls = [asyncio.create_task(agent.call("hands", f"{n}")) for n in range(2)]
        await computer.until(TOOL_CALL)
        await computer.until(TOOL_CALL)
        assert (await agent.call("hands", "one too many"))["code"] == 429
        answer.set_result(RESULT)
        assert await asyncio.gather(*calls) == [RESULT] * 2


async def test_many_calls_at_once_each_get_their_own_answer(running: Running) -> None:
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = lambda said: {"content": said["params"]["n"], "isError": False}
    answers = await asyncio.gather(*(agent.call("hands", f"{n}", n=n) for n in range(60)))
    assert [answer["content"] for answer in answers] == list(range(60))


# ---- telling and looking ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["update_config", "update_tool_list", "update_desktop", "update_skills"])
async def test_what_a_computer_has_changed_the_others_are_told(running: Running, what: str) -> None:
    """Under the name by which it joined. Nobody else may say it, and nobody elsewhere hears it."""
    agent, computer = await running.agent(), await running.computer()
    elsewhere, outside = await running.agent("chief", "b"), await running.client()
    await computer.ask(f"server:{what}", {"computer": "somebody else"})
    assert await agent.until(f"notify:{what}") == {"computer": "hands"}
    for other in (agent, outside):
        assert (await other.ask(f"server:{what}", {"computer": "hands"}))["code"] == 403
    assert [one for one in await agent.quiet() if one[0] != "notify:enter_office"] == []
    assert await elsewhere.quiet() == []
    assert await computer.quiet() == []


async def test_an_office_is_listed_to_its_members(running: Running) -> None:
    """Either role; with the version that each speaks."""
    agent, computer = await running.agent(), await running.computer(version=None)
    for who in (agent, computer):
        answer = await who.list_room()
        assert answer["req_id"] == "list"
        shown = [{name: one[name] for name in one if name != "sid"} for one in answer["sessions"]]
        assert shown == [
            {"name": "boss", "role": "agent", "office_id": "a", "a2c_version": "0.4.0"},
            {"name": "hands", "role": "computer", "office_id": "a"},
        ]
    assert (await agent.list_room("b"))["code"] == 403
    outside = await running.client()
    assert (await outside.list_room())["code"] == 403


async def test_it_is_listed_before_the_join_where_that_is_configured() -> None:
    """For the offices of one's token."""
    async with offices_on(list_before_join=True) as running:
        await running.computer("pan", "kitchen")
        cook = await running.client("kitchen")
        assert [one["name"] for one in (await cook.list_room("kitchen"))["sessions"]] == ["pan"]
        assert (await cook.list_room("cellar"))["code"] == 403


async def test_whatever_is_said_is_answered(running: Running) -> None:
    """No odd argument leaves anybody waiting, or harms the server."""
    agent = await running.agent()
    odd: list[Any] = [None, [], {}, 5, "x", True, b"\0", {"computer": {}}, {"req_id": "a", "agent": 1}]
    for event in (*CLIENT_EVENTS, "server:list_room", "server:tool_call_cancel", "server:update_config"):
        for said in odd:
            answer = await agent.ask(event, said)
            assert answer["code"] == 400, (event, said)
    # Several arguments, and none.
    for said in ((), ({}, {}), (1, 2, 3)):
        await agent.io.call("server:join_office", said or None, namespace=NAMESPACE, timeout=TIMEOUT)
    assert len((await agent.list_room())["sessions"]) == 1
