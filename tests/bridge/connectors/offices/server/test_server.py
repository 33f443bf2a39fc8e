"""The Socket.IO server, row by row of the decision tables in the notes on the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import socketio
from socketio.packet import ACK, Packet

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
NOT_FOUND = {"code": 404, "message": "Computer with name 'feet' not found", "details": {"computer_name": "feet"}}


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with offices_on() as made:
        yield made


# ---- connections and memberships ----------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "wrong", 5, "x" * 5_000])
async def test_a_connection_without_a_valid_token_is_refused(running: Running, token: Any) -> None:
    """With Socket.IO's connect error, and nothing of the connection is kept."""
    with pytest.raises(socketio.exceptions.ConnectionError):
        await running.client(token)
    assert running.server._connections == {}


@pytest.mark.parametrize("name", ["x-api-key", "access_token"])
async def test_unversioned_clients_may_send_the_token_in_a_header(running: Running, name: str) -> None:
    """A client that sends a version may not."""
    client = await running.client(None, None, headers={name: "any"})
    assert await client.join("agent", "boss") == [True, None]
    with pytest.raises(socketio.exceptions.ConnectionError):
        await running.client(None, headers={name: "any"})


@pytest.mark.parametrize("transports", [["polling"], ["websocket"], None])
async def test_both_transports_are_served(running: Running, transports: list[str] | None) -> None:
    """Polling, WebSocket, and the upgrade from one to the other."""
    agent = await running.agent(transports=transports)
    computer = await running.computer(transports=transports)
    computer.answers[TOOL_CALL] = RESULT
    assert await agent.call("hands") == RESULT


@pytest.mark.parametrize("body", ["0", "4" + "x" * 1_010_000], ids=["unknown packet", "too long"])
async def test_a_refused_post_is_answered(running: Running, body: str) -> None:
    """Although its client may never fetch what is queued for it. A client needs no token to get this far."""
    where = f"{running.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT)) as session:
        async with session.get(where) as answer:
            sid = json.loads((await answer.text())[1:])["sid"]
        async with session.post(f"{where}&sid={sid}", data=body) as answer:
            assert answer.status == 400
        async with session.post(f"{where}&sid={sid}", data="40/smcp,") as answer:
            assert (answer.status, "Invalid session" in await answer.text()) == (400, True)


async def test_a_silent_websocket_is_closed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also during the upgrade from polling, which needs no token."""
    monkeypatch.setattr(socket_io, "WEBSOCKET_TIMEOUT", 0.05)
    where = f"{running.url}/socket.io/?EIO=4&a2c_version=0.4.0"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{where}&transport=polling") as answer:
            sid = json.loads((await answer.text())[1:])["sid"]
        async with session.ws_connect(f"{where}&transport=websocket&sid={sid}") as silent:
            message = await silent.receive(timeout=TIMEOUT)
            assert message.type is aiohttp.WSMsgType.CLOSE


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_the_version_is_checked_before_socket_io(running: Running, transport: str) -> None:
    """With the published status, header and body, and only at the exact path."""
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


async def test_the_path_can_be_configured() -> None:
    async with offices_on(path="/offices/io") as running:
        client = await running.client(path="offices/io")
        assert await client.join("agent", "boss") == [True, None]


async def test_a_token_limits_roles_and_offices(running: Running) -> None:
    """A refused join gives the reason and leaves no state behind."""
    boss = await running.client("agents")
    refused = await boss.join("computer", "hands")
    assert refused[0] is False
    assert "role computer" in refused[1]
    cook = await running.client("kitchen")
    assert (await cook.join("agent", "cook", "cellar"))[0] is False
    assert await cook.join("agent", "cook", "kitchen 7") == [True, None]


async def test_other_members_are_notified_of_joins_and_leaves(running: Running) -> None:
    """A member is not notified of its own join or leave."""
    agent, computer = await running.agent(), await running.computer()
    assert await agent.wait_for("notify:enter_office") == {"office_id": "a", "computer": "hands"}
    assert await computer.leave() == [True, None]
    assert await agent.wait_for("notify:leave_office") == {"office_id": "a", "computer": "hands"}
    assert await computer.leave() == [False, "Not in office"]
    assert await computer.join("computer", "hands") == [True, None]
    await agent.close()
    assert await computer.wait_for("notify:leave_office") == {"office_id": "a", "agent": "boss"}
    assert await computer.unexpected() == []


async def test_a_computer_can_change_its_office(running: Running) -> None:
    """Both offices are notified."""
    here, there = await running.agent(), await running.agent("chief", "b")
    computer = await running.computer()
    assert await computer.join("computer", "hands", "b") == [True, None]
    assert await here.wait_for("notify:leave_office") == {"office_id": "a", "computer": "hands"}
    assert await there.wait_for("notify:enter_office") == {"office_id": "b", "computer": "hands"}
    assert (await here.tools("hands"))["code"] == 404


async def test_a_client_whose_join_is_refused_receives_nothing(running: Running) -> None:
    """It is in no Socket.IO room, so it does not receive notifications of the office."""
    agent, rival = await running.agent(), await running.client()
    assert await rival.join("agent", "rival") == [False, "Room already has an agent"]
    computer = await running.computer()
    await computer.emit("server:update_config", {"computer": "hands"})
    await agent.wait_for("notify:update_config")
    assert await rival.unexpected() == []
    assert (await agent.list_room())["sessions"][-1]["name"] == "hands"
    assert len((await agent.list_room())["sessions"]) == 2


@pytest.mark.parametrize(
    ("payload", "field"),
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
async def test_a_malformed_join_names_the_field(running: Running, payload: Any, field: str) -> None:
    client = await running.client()
    answer = await client.request("server:join_office", payload)
    assert answer[0] is False
    assert field in answer[1]
    assert (await client.request("server:leave_office", {"office_id": None}))[0] is False


async def test_a_request_right_after_a_join_is_answered(running: Running) -> None:
    """Published Agents do not wait for the acknowledgement of their join."""
    computer = await running.computer()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "tools"}
    agent = await running.client()
    await agent.emit("server:join_office", {"role": "agent", "name": "boss", "office_id": "a"})
    assert await agent.tools("hands") == {"tools": [], "req_id": "tools"}


async def test_concurrent_joins_seat_one_agent(running: Running) -> None:
    """An office has one Agent, however close together the joins are."""
    clients = [await running.client() for _ in range(5)]
    answers = await asyncio.gather(*(one.join("agent", f"{n}") for n, one in enumerate(clients)))
    assert sorted(answer[0] for answer in answers) == [False] * 4 + [True]


async def test_all_members_leave_when_the_server_stops() -> None:
    """Their clients are disconnected and notified."""
    async with offices_on() as running:
        agent, computer = await running.agent(), await running.computer()
        await running.server.close()
        for one in (agent, computer):
            async with asyncio.timeout(TIMEOUT):
                await one.io.wait()
        assert await computer.wait_for("notify:leave_office") == {"office_id": "a", "agent": "boss"}
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client()


async def test_a_disconnect_takes_effect_even_if_it_cannot_be_recorded(running: Running) -> None:
    """The name is free again, pending requests are answered, and the failure is reported."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = asyncio.create_task(agent.call("hands", seconds=3_000))
    await computer.wait_for(TOOL_CALL)
    records = running.records
    assert records is not None
    records.error = OSError("full")
    await computer.close()
    assert (await calling)["code"] == 404
    assert [one["name"] for one in (await agent.list_room())["sessions"]] == ["boss"]
    assert any("Failed to record" in one for one in running.problems)
    running.problems.clear()
    records.error = None
    assert await (await running.client()).join("computer", "hands") == [True, None]


async def test_an_agent_that_reconnects_takes_its_seat_again(running: Running) -> None:
    """Even if its leave is still being recorded: the join waits for that."""
    records = running.records
    assert records is not None
    agent, other = await running.agent(), await running.client()
    records.leaving = asyncio.Event()
    disconnecting = asyncio.create_task(agent.close())
    await records.is_leaving.wait()
    joining = asyncio.create_task(other.join("agent", "boss"))
    await running.client()
    records.leaving.set()
    assert await joining == [True, None]
    await disconnecting


async def test_a_change_of_office_that_cannot_be_recorded_fails(running: Running) -> None:
    """The Computer stays in its office, and its join is refused."""
    agent, computer = await running.agent(), await running.computer()
    records = running.records
    assert records is not None
    records.error = OSError("full")
    assert await computer.join("computer", "hands", "b") == [False, "Internal server error"]
    records.error = None
    running.problems.clear()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "tools"}
    assert await agent.tools("hands") == {"tools": [], "req_id": "tools"}


async def test_connections_beyond_the_maximum_are_refused() -> None:
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


# ---- requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", CLIENT_EVENTS)
async def test_requests_and_answers_are_relayed_unchanged(running: Running, event: str) -> None:
    """Including fields that the protocol does not define."""
    agent, computer = await running.agent(), await running.computer()
    payload = {name: GOOD[kind] for name, kind in CLIENT_EVENTS[event].required.items()}
    payload |= {"computer": "hands", "timeout": 5, "unheard_of": [1, {"a": None}]}
    computer.answers[event] = {"req_id": "a", "_meta": {"deep": [True]}, "tools": "ü"}
    assert await agent.request(event, payload) == computer.answers[event]
    assert await computer.wait_for(event) == payload


async def test_large_and_binary_answers_are_relayed_unchanged(running: Running) -> None:
    """And so are flat errors of the Computer."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers["client:get_tools"] = {"code": 4014, "message": "x", "mcp_server": "y", "details": {"z": 1}}
    assert await agent.tools("hands") == computer.answers["client:get_tools"]
    computer.answers["client:get_tools"] = {"tools": ["x" * 300_000], "blob": b"\0\1", "req_id": "tools"}
    assert await agent.tools("hands") == computer.answers["client:get_tools"]


@pytest.mark.parametrize("answer", [None, [], "text", 5])
async def test_an_answer_that_is_no_object_becomes_an_error(running: Running, answer: Any) -> None:
    """An empty acknowledgement would crash the Agent."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers["client:get_tools"] = answer
    refused = await agent.tools("hands")
    assert (refused["code"], refused["details"]) == (404, {"reason": "event_not_supported"})


async def test_isolation_is_enforced_with_an_immediate_answer(running: Running) -> None:
    """An unknown target, another office, no office, another role: flat errors, and the Computer receives
    nothing."""
    agent, stranger = await running.agent(), await running.client()
    feet = await running.computer("feet", "b")
    assert await agent.tools("feet") == NOT_FOUND
    assert await stranger.tools("feet") == NOT_FOUND
    assert (await feet.tools("feet"))["code"] == 403
    assert (await agent.tools("boss"))["code"] == 404
    assert (await agent.request(TOOL_CALL, {"computer": "feet"}))["code"] == 400
    for odd in ("client:unheard_of", "notify:enter_office", "agent:x", "server:unheard_of", "x" * 5_000):
        assert (await agent.request(odd, {}))["code"] == 400
    await agent.emit("notify:enter_office", {"office_id": "b", "computer": "spy"})
    assert await feet.unexpected() == []


async def test_the_profile_spec_uses_the_protocols_codes() -> None:
    async with offices_on(profile="spec") as running:
        agent, stranger = await running.agent(), await running.client()
        await running.computer("feet", "b")
        assert (await agent.tools("feet"))["code"] == 4104
        assert (await stranger.tools("feet"))["code"] == 4103
        assert (await stranger.list_room())["code"] == 4103


async def test_a_call_is_answered_at_once_if_its_computer_leaves(running: Running) -> None:
    """Whether its connection ends or it leaves the office."""
    for leaves in (True, False):
        agent, computer = await running.agent(), await running.computer()
        computer.answers[TOOL_CALL] = asyncio.Future()
        calling = asyncio.create_task(agent.call("hands", seconds=3_000))
        await computer.wait_for(TOOL_CALL)
        await (computer.leave() if leaves else computer.close())
        async with asyncio.timeout(TIMEOUT):
            answer = await calling
        assert (answer["code"], answer["details"]) == (404, {"computer_name": "hands"})
        await agent.leave()


async def test_a_call_that_times_out_is_cancelled(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Computer is notified, and the Agent receives a result that says so."""
    monkeypatch.setattr("bridge.connectors.offices.protocol.relay.SLACK", 0.0)
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    answer = await agent.call("hands", "late", seconds=1)
    assert (answer["isError"], answer["meta"]) == (True, {"a2c_timeout": True})
    assert await computer.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "late"}


async def test_other_requests_time_out_as_well() -> None:
    async with offices_on(relay_timeout=0.2) as running:
        agent, computer = await running.agent(), await running.computer()
        computer.answers["client:get_tools"] = asyncio.Future()
        assert (await agent.tools("hands"))["code"] == 408


async def test_an_agent_can_cancel_its_call(running: Running) -> None:
    """The Computer is notified. A call of another connection cannot be cancelled."""
    agent, computer = await running.agent(), await running.computer()
    stranger = await running.agent("chief", "b")
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    calling = asyncio.create_task(agent.call("hands", "mine"))
    await computer.wait_for(TOOL_CALL)
    await stranger.emit("server:tool_call_cancel", {"agent": "x", "req_id": "mine"})
    await stranger.unexpected()
    await agent.emit("server:tool_call_cancel", {"agent": "boss", "req_id": "other"})
    await agent.unexpected()
    assert await computer.unexpected() == []
    await agent.emit("server:tool_call_cancel", {"agent": "boss", "req_id": "mine"})
    assert await computer.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "mine"}
    answer.set_result({**RESULT, "meta": {"a2c_cancelled": True}})
    assert (await calling)["meta"] == {"a2c_cancelled": True}


async def test_calls_of_an_agent_that_disconnects_are_cancelled(running: Running) -> None:
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = asyncio.create_task(agent.call("hands", "orphan"))
    await computer.wait_for(TOOL_CALL)
    await agent.close()
    assert await computer.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "orphan"}
    calling.cancel()


async def test_an_answer_to_a_call_of_an_earlier_connection_is_ignored(running: Running) -> None:
    """A Computer that has reconnected sends it on the new connection, under the id that the call had on the
    old one."""
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = asyncio.Future()
    calling = asyncio.create_task(agent.call("hands"))
    await computer.wait_for(TOOL_CALL)
    for late in range(5):
        await computer.io._send_packet(Packet(ACK, namespace=NAMESPACE, id=late, data=["late"]))
    await computer.unexpected()
    computer.answers[TOOL_CALL].set_result(RESULT)
    assert await calling == RESULT


async def test_a_repeated_call_is_sent_once(running: Running) -> None:
    """While the first is in flight, all receive its result. Published clients reuse one `req_id` for other
    requests, so those are not merged."""
    agent, computer = await running.agent(), await running.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    calls = [asyncio.create_task(agent.call("hands", "same")) for _ in range(3)]
    await computer.wait_for(TOOL_CALL)
    assert await computer.unexpected() == []
    answer.set_result(RESULT)
    assert await asyncio.gather(*calls) == [RESULT] * 3
    assert await agent.call("hands", "same") == RESULT
    await computer.wait_for(TOOL_CALL)


async def test_calls_beyond_the_maximum_are_refused() -> None:
    async with offices_on(most_calls_in_flight=2) as running:
        agent, computer = await running.agent(), await running.computer()
        answer: asyncio.Future[Any] = asyncio.Future()
        computer.answers[TOOL_CALL] = answer
        calls = [asyncio.create_task(agent.call("hands", f"{n}")) for n in range(2)]
        await computer.wait_for(TOOL_CALL)
        await computer.wait_for(TOOL_CALL)
        assert (await agent.call("hands", "one too many"))["code"] == 429
        answer.set_result(RESULT)
        assert await asyncio.gather(*calls) == [RESULT] * 2


async def test_concurrent_calls_receive_their_own_answers(running: Running) -> None:
    agent, computer = await running.agent(), await running.computer()
    computer.answers[TOOL_CALL] = lambda payload: {"content": payload["params"]["n"], "isError": False}
    answers = await asyncio.gather(*(agent.call("hands", f"{n}", n=n) for n in range(60)))
    assert [answer["content"] for answer in answers] == list(range(60))


# ---- updates and lists --------------------------------------------------------------------------------


@pytest.mark.parametrize("update", ["update_config", "update_tool_list", "update_desktop", "update_skills"])
async def test_updates_of_a_computer_are_sent_to_its_office(running: Running, update: str) -> None:
    """With its joined name. Only a Computer may send them, and only its office receives them."""
    agent, computer = await running.agent(), await running.computer()
    elsewhere, outside = await running.agent("chief", "b"), await running.client()
    await computer.request(f"server:{update}", {"computer": "somebody else"})
    assert await agent.wait_for(f"notify:{update}") == {"computer": "hands"}
    for other in (agent, outside):
        assert (await other.request(f"server:{update}", {"computer": "hands"}))["code"] == 403
    assert [one for one in await agent.unexpected() if one[0] != "notify:enter_office"] == []
    assert await elsewhere.unexpected() == []
    assert await computer.unexpected() == []


async def test_members_can_list_their_office(running: Running) -> None:
    """In either role. The list contains each member's protocol version."""
    agent, computer = await running.agent(), await running.computer(version=None)
    for client in (agent, computer):
        answer = await client.list_room()
        assert answer["req_id"] == "list"
        shown = [{name: one[name] for name in one if name != "sid"} for one in answer["sessions"]]
        assert shown == [
            {"name": "boss", "role": "agent", "office_id": "a", "a2c_version": "0.4.0"},
            {"name": "hands", "role": "computer", "office_id": "a"},
        ]
    assert (await agent.list_room("b"))["code"] == 403
    outside = await running.client()
    assert (await outside.list_room())["code"] == 403


async def test_listing_before_joining_can_be_configured() -> None:
    """For the offices that the token allows."""
    async with offices_on(list_before_join=True) as running:
        await running.computer("pan", "kitchen")
        cook = await running.client("kitchen")
        assert [one["name"] for one in (await cook.list_room("kitchen"))["sessions"]] == ["pan"]
        assert (await cook.list_room("cellar"))["code"] == 403


async def test_every_request_is_answered(running: Running) -> None:
    """No odd argument leaves a client waiting or harms the server."""
    agent = await running.agent()
    odd: list[Any] = [None, [], {}, 5, "x", True, b"\0", {"computer": {}}, {"req_id": "a", "agent": 1}]
    for event in (*CLIENT_EVENTS, "server:list_room", "server:tool_call_cancel", "server:update_config"):
        for payload in odd:
            answer = await agent.request(event, payload)
            assert answer["code"] == 400, (event, payload)
    # Several arguments, and none.
    for arguments in ((), ({}, {}), (1, 2, 3)):
        await agent.io.call("server:join_office", arguments or None, namespace=NAMESPACE, timeout=TIMEOUT)
    assert len((await agent.list_room())["sessions"]) == 1
