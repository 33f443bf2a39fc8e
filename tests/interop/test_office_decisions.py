"""What was decided where the protocol of offices leaves it open, and its handshake, on the wire of a node.

Which row of which table each test is of stands in `test_office_tables.py`.
"""

import asyncio
import json
import secrets
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import socketio

from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.versions import ProtocolLine
from tests.bridge.connectors.offices.clients import TIMEOUT, offices_on
from tests.bridge.connectors.offices.protocol.test_shape import GOOD
from tests.interop.office_room import RESULT, Hosted, Room, both, hosted, peers, room
from tests.process.agent_nodes import until
from tests.support.smcp import Peers, Refused
from tests.support.smcp.walk import Pair, arrive
from tests.support.smcp.walk_calls import walk_call, walk_large

__all__ = ["both", "hosted", "peers", "room"]
pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office tables")]

# Above what a frame may hold: 1,000,000 bytes.
TOO_LARGE = 1_000_001

MISMATCH = {
    "code": 4008,
    "message": "Protocol version mismatch",
    "server_version": "0.4.0",
    "client_version": "1.0.0",
    "min_supported": "0.2.0",
    "max_supported": "0.4.999",
}
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        ("", {"code": 400, "message": "Missing a2c_version query parameter"}, None),
        ("&a2c_version=abc", {"code": 400, "message": "Invalid a2c_version: Invalid version: abc"}, None),
        ("&a2c_version=1.0.0", MISMATCH, "4008"),
    ],
    ids=["absent", "no version", "another version"],
)
async def test_a_handshake_is_refused(both: list[Hosted], query: str, body: dict[str, Any], code: str | None) -> None:
    """With 400 and JSON with its length, before Socket.IO is involved; with the same bytes for polling and
    for WebSocket, over HTTP and over TLS."""
    node, seen = both[1].node, set()
    for scheme, ssl in (("http", True), ("https", node.tls())):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=ssl)) as session:
            for transport, headers in (("polling", {}), ("websocket", UPGRADE)):
                where = node.url(f"/socket.io/?EIO=4&transport={transport}{query}", scheme)
                async with session.get(where, headers=headers) as answer:
                    said = await answer.read()
                    assert answer.status == 400
                    assert answer.headers["content-type"].split(";")[0] == "application/json"
                    assert answer.headers["content-length"] == str(len(said))
                    assert answer.headers.get("x-a2c-error-code") == code
                    seen.add(said)
            where = node.url(f"/socket.io/?EIO=4&transport=websocket{query}", scheme)
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(where)
            assert refused.value.status == 400
    [said] = seen
    assert json.loads(said) == body


@pytest.mark.parametrize("version", ["0.2.0", "0.3.9", "0.4.999", None])
async def test_an_earlier_version_is_accepted(room: Room, version: str | None) -> None:
    """With any patch number; and no version at all, with the token in a header."""
    if version is None:
        client = await room.clients.client(None, None, headers={"x-api-key": room.token})
    else:
        client = await room.client(version=version)
    assert await client.join("computer", "hands", room.office_id) == [True, None]
    [session] = (await client.list_room(room.office_id))["sessions"]
    assert session.get("a2c_version") == version


@pytest.mark.parametrize("version", ["0.1.9", "0.5.0", "1.0.0"])
async def test_another_line_of_versions_is_refused(room: Room, version: str) -> None:
    """The error has the lowest and the highest accepted version of both lines."""
    async with aiohttp.ClientSession() as session:
        where = f"{room.clients.url}/socket.io/?EIO=4&transport=polling&a2c_version={version}"
        async with session.get(where) as answer:
            said = await answer.json()
    assert (answer.status, said) == (400, {**MISMATCH, "client_version": version})
    with pytest.raises(socketio.exceptions.ConnectionError):
        await room.client(version=version)


async def test_strict_mode_accepts_one_version() -> None:
    """By the published rule, and reports it."""
    async with (
        offices_on(profile="spec", versions=(ProtocolLine(0, 4),), accept_unversioned=False) as running,
        aiohttp.ClientSession() as session,
    ):
        assert await (await running.client(version="0.4.9")).join("agent", "boss") == [True, None]
        where = f"{running.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.3.1"
        async with session.get(where) as answer:
            said = await answer.json()
        assert (said["min_supported"], said["max_supported"]) == ("0.4.0", "0.4.999")


# ---- memberships ----------------------------------------------------------------------------------------


async def test_an_agent_joins_its_office_again(room: Room) -> None:
    """Without a notification; under another name it is refused."""
    agent, computer = await room.agent(), await room.computer()
    assert await agent.join("agent", "boss", room.office_id) == [True, None]
    assert await agent.join("agent", "chief", room.office_id) == [False, "Already in the office as 'boss'"]
    assert await computer.unexpected() == []
    assert await room.names(computer) == ["boss", "hands"]


async def test_an_agent_leaves_before_it_joins_another_office(room: Room) -> None:
    """Until then nothing changes."""
    agent, computer = await room.agent(), await room.computer()
    answer = await agent.join("agent", "boss", room.other().office_id)
    assert answer == [False, "Agent is already in another office: leave it first"]
    computer.answers[TOOL_CALL] = RESULT
    assert await agent.call("hands") == RESULT
    assert await agent.leave(room.office_id) == [True, None]
    assert await agent.join("agent", "boss", room.other().office_id) == [True, None]


async def test_a_connection_has_one_role(room: Room) -> None:
    """From its first join to its end, in every office."""
    agent, computer = await room.agent(), await room.computer()
    assert (await agent.join("computer", "boss", room.office_id))[0] is False
    await agent.leave(room.office_id)
    assert await agent.join("computer", "x", room.other().office_id) == [
        False,
        "Role mismatch: this connection is an agent",
    ]
    assert (await computer.join("agent", "hands", room.other().office_id))[0] is False
    assert await room.names(computer) == ["hands"]


async def test_a_computer_that_cannot_move_stays(room: Room) -> None:
    """All checks come before it leaves: no office is notified."""
    agent, computer = await room.agent(), await room.computer()
    there = room.other()
    chief, namesake = await there.agent("chief"), await there.computer()
    for one in (agent, chief):
        await one.wait_for("notify:enter_office")
    answer = await computer.join("computer", "hands", there.office_id)
    assert answer == [False, "Name 'hands' is taken in the office"]
    computer.answers[TOOL_CALL] = RESULT
    assert await agent.call("hands") == RESULT
    for one in (agent, chief, namesake):
        assert await one.unexpected() == []


async def test_names_are_unique_in_one_office(room: Room) -> None:
    """Across both roles; the same name in two offices is two members."""
    agent, computer = await room.agent(), await room.computer()
    rival = await room.client()
    assert await rival.join("computer", "boss", room.office_id) == [False, "Name 'boss' is taken in the office"]
    chief, namesake = await room.other().agent("chief"), await room.other().computer()
    computer.answers[TOOL_CALL], namesake.answers[TOOL_CALL] = {**RESULT, "n": 1}, {**RESULT, "n": 2}
    assert ((await agent.call("hands"))["n"], (await chief.call("hands"))["n"]) == (1, 2)


async def test_a_former_member_receives_nothing(room: Room) -> None:
    """Leaving an office in which it is not a member changes nothing."""
    agent, computer = await room.agent(), await room.computer()
    await agent.wait_for("notify:enter_office")
    assert await computer.leave(room.other().office_id) == [False, "Not in office"]
    assert await room.names(agent) == ["boss", "hands"]
    assert await computer.leave(room.office_id) == [True, None]
    assert await agent.wait_for("notify:leave_office") == {"office_id": room.office_id, "computer": "hands"}
    other = await room.computer("feet")
    await other.emit("server:update_config", {"computer": "feet"})
    await agent.wait_for("notify:update_config")
    assert await computer.unexpected() == []


# ---- calls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1, 3601, "5", 1.5, None, True])
async def test_a_time_limit_is_a_number_of_seconds_up_to_an_hour(room: Room, seconds: Any) -> None:
    """Otherwise the call is refused at once, with the field's name."""
    agent, computer = await room.agent(), await room.computer()
    said = {name: GOOD[kind] for name, kind in CLIENT_EVENTS[TOOL_CALL].required.items()}
    answer = await agent.request(TOOL_CALL, {**said, "computer": "hands", "timeout": seconds})
    assert (answer["code"], "'timeout'" in answer["message"]) == (400, True)
    assert not any(event == TOOL_CALL for event, _ in await computer.unexpected())


async def test_a_call_has_five_seconds_beyond_its_limit(room: Room) -> None:
    """The Computer's own timeout answer may be in flight. After that it is asked to stop, and the Agent gets
    a result."""
    agent, computer = await room.agent(), await room.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    began = time.monotonic()
    calling = asyncio.create_task(agent.call("hands", "late", seconds=1))
    await computer.wait_for(TOOL_CALL)
    asyncio.get_running_loop().call_later(3.0, answer.set_result, RESULT)
    assert await calling == RESULT
    assert time.monotonic() - began > 3
    computer.answers[TOOL_CALL] = asyncio.Future()
    began = time.monotonic()
    late = await agent.call("hands", "never", seconds=1)
    assert (late["isError"], late["meta"]) == (True, {"a2c_timeout": True})
    assert 6 <= time.monotonic() - began < 6 + TIMEOUT / 2
    assert (await computer.wait_for("notify:tool_call_cancel"))["req_id"] == "never"


async def test_the_connection_decides_the_requester(room: Room) -> None:
    """The name in the request is ignored: correct clients send another one than the name with which they
    joined."""
    agent, computer = await room.agent(), await room.computer()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "tools"}
    for name in ("boss", "somebody else", ""):
        said = {"agent": name, "req_id": "tools", "computer": "hands"}
        assert await agent.request("client:get_tools", said) == computer.answers["client:get_tools"]
        assert await computer.wait_for("client:get_tools") == said
    # The name of an Agent that is in the office gives a stranger nothing.
    stranger = await room.client()
    answer = await stranger.request("client:get_tools", {"agent": "boss", "req_id": "tools", "computer": "hands"})
    assert answer["code"] == 404


async def test_a_foreign_cancel_is_audited(hosted: Hosted, room: Room) -> None:
    """The call goes on, and `palaver audit` shows the attempt."""
    agent, computer = await room.agent(), await room.computer()
    stranger = await room.other().agent("chief")
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    req_id = secrets.token_hex(8)
    calling = asyncio.create_task(agent.call("hands", req_id))
    await computer.wait_for(TOOL_CALL)
    await stranger.emit("server:tool_call_cancel", {"agent": "boss", "req_id": req_id})
    await stranger.unexpected()
    assert await computer.unexpected() == []
    answer.set_result(RESULT)
    assert await calling == RESULT

    async def audited() -> dict[str, Any] | None:
        _, said = await hosted.node.palaver("audit", "--json")
        acts = [act for act in json.loads(said)["acts"] if act["subject"] == req_id]
        return acts[0] if acts else None

    act = await until(audited)
    assert (act["act"], act["outcome"], act["peer"]) == ("office_cancel", "refused", "everybody")


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_either_transport_alone_is_enough(room: Room, transport: str) -> None:
    """Also if a proxy blocks WebSockets."""
    agent, computer = await room.agent(transports=[transport]), await room.computer(transports=[transport])
    for size in (1, 300_000):
        computer.answers[TOOL_CALL] = {**RESULT, "content": [{"type": "text", "text": "x" * size}]}
        assert await agent.call("hands", f"{size}") == computer.answers[TOOL_CALL]
    assert await agent.wait_for("notify:enter_office") == {"office_id": room.office_id, "computer": "hands"}


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_a_frame_that_is_too_large_ends_its_connection(room: Room, transport: str) -> None:
    """Above 1,000,000 bytes. All members are notified; calls of others and the node are not affected."""
    agent, computer = await room.agent(), await room.computer(transports=[transport])
    steady = await room.computer("steady")
    answer: asyncio.Future[Any] = asyncio.Future()
    steady.answers[TOOL_CALL] = answer
    goes_on = asyncio.create_task(agent.call("steady", "steady"))
    await steady.wait_for(TOOL_CALL)
    computer.answers[TOOL_CALL] = {**RESULT, "content": [{"type": "text", "text": "x" * TOO_LARGE}]}
    lost = await agent.call("hands", "large", seconds=60)
    assert (lost["code"], lost["details"]) == (404, {"computer_name": "hands"})
    assert await agent.wait_for("notify:leave_office") == {"office_id": room.office_id, "computer": "hands"}
    async with asyncio.timeout(TIMEOUT):
        await computer.io.eio.wait()
    answer.set_result(RESULT)
    assert await goes_on == RESULT
    again = await room.computer()
    again.answers[TOOL_CALL] = {**RESULT, "content": [{"type": "text", "text": "x" * 900_000}]}
    assert len((await agent.call("hands", "as large as may be"))["content"][0]["text"]) == 900_000


# ---- published clients ----------------------------------------------------------------------------------


async def test_published_clients_use_tls(hosted: Hosted, tmp_path: Path) -> None:
    """With the node's own certificate, whose authority they trust."""
    authority = hosted.node.data / "tls" / "ca.pem"
    async with Peers(tmp_path, SSL_CERT_FILE=str(authority)) as peers:
        agent, computer = await peers.agent("0.4.2"), await peers.computer("0.4.2")
        office = f"office-{secrets.token_hex(4)}"
        pair = Pair(peers, agent, computer, hosted.expectations(office, "https"))
        for step in (arrive, walk_call, walk_large):
            await pair.walk(step)


@pytest.mark.parametrize("version", ["0.2.2", "0.3.3"])
async def test_an_older_computer_is_sent_no_upload(hosted: Hosted, peers: Peers, version: str) -> None:
    """The Computer's version decides: the Agent gets an error at once, and the Computer receives nothing."""
    agent, computer = await peers.agent("0.4.2"), await peers.computer(version)
    pair = Pair(peers, agent, computer, hosted.expectations(f"office-{secrets.token_hex(4)}"))
    await pair.walk(arrive)
    computer.forget()
    began = time.monotonic()
    with pytest.raises(Refused) as refused:
        await agent.do("put_blob", computer=computer.name, data="AAAA", name_hint="x.bin")
    assert time.monotonic() - began < TIMEOUT / 2
    assert refused.value.told["reason"] == "protocol_error_404"
    answer = await agent.until("ack client:put_blob")
    assert (answer["code"], answer["details"]) == (404, {"reason": "event_not_supported"})
    assert computer.reports == []
    await pair.walk(walk_call)


async def test_an_older_agent_may_upload_to_a_newer_computer(room: Room) -> None:
    """The target's version decides."""
    agent, computer = await room.agent(version="0.2.0"), await room.computer(version="0.4.0")
    said = {name: GOOD[kind] for name, kind in CLIENT_EVENTS["client:put_blob"].required.items()}
    computer.answers["client:put_blob"] = {"upload_id": "u", "chunk_offset": 0, "req_id": "1"}
    answer = await agent.request("client:put_blob", {**said, "computer": "hands"})
    assert answer == computer.answers["client:put_blob"]
