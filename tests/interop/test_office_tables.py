"""Offices, row by row: each row of what the protocol's clients and servers say to each other, and of what was
decided where they leave it open, with the tests that hold it on the wire.

The rows stand in the tables at the end. What other files do not test is tested here, with a node that runs.
"""

import ast
import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import socketio

from bridge.connectors.offices.events import CLIENT_EVENTS, SERVER_EVENTS, TOOL_CALL, UPDATES
from bridge.connectors.offices.protocol_version import Line
from tests.bridge.connectors.offices.service.clients import PATIENCE, Client, Clients, offices_on
from tests.bridge.connectors.offices.test_shape import GOOD
from tests.process.agent_nodes import AgentNode, agent_nodes, until
from tests.support.postgres import Server
from tests.support.smcp import Peers, PublishedAgent, Refused
from tests.support.smcp.expectations import Expectations
from tests.support.smcp.walk import STEPS, Pair, arrive
from tests.support.smcp.walk_calls import walk_call, walk_large
from tests.support.smcp.walk_membership import connect

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office tables")]

ROOT = Path(__file__).parents[2]
OFFICES = """
[offices]
enabled = true
"""
# Above what a frame may hold: 1,000,000 bytes.
TOO_LARGE = 1_000_001
RESULT = {
    "meta": None,
    "content": [{"type": "text", "text": "3"}],
    "structuredContent": None,
    "isError": False,
}


@dataclass
class Hosted:
    """A node that runs, and bare clients in its offices."""

    node: AgentNode
    token: str

    def clients(self, stack: AsyncExitStack) -> Clients:
        return Clients(self.node.url("", "http"), stack)

    def expectations(self, office: str, scheme: str = "http") -> Expectations:
        url = self.node.url("", scheme)
        return Expectations(url=url, token=self.token, office=office, agent_id="planner-7")


@pytest.fixture(scope="module")
async def both(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[list[Hosted]]:
    """One as it is made, and one that takes nobody without a version."""
    fields: list[dict[str, Any]] = [
        {"name": "kitchen.local", "more": OFFICES},
        {"name": "cellar.local", "more": f"{OFFICES}accept_unversioned = false\n"},
    ]
    async with agent_nodes(palaver, postgres_server, migrated_template, *fields) as nodes:
        made = []
        for node in nodes:
            code, said = await node.palaver("offices", "token", "create", "everybody", "--json")
            assert code == 0, said
            made.append(Hosted(node, json.loads(said)["token"]))
        yield made


@pytest.fixture
def hosted(both: list[Hosted]) -> Hosted:
    return both[0]


@dataclass
class Room:
    """Bare clients that come into offices which nobody else uses."""

    clients: Clients
    token: str
    office_id: str

    def other(self) -> "Room":
        return Room(self.clients, self.token, f"{self.office_id}-other")

    async def client(self, **how: Any) -> Client:
        return await self.clients.client(self.token, **how)

    async def member(self, role: str, name: str, **how: Any) -> Client:
        client = await self.client(**how)
        assert await client.join(role, name, self.office_id) == [True, None]
        return client

    async def agent(self, name: str = "boss", **how: Any) -> Client:
        return await self.member("agent", name, **how)

    async def computer(self, name: str = "hands", **how: Any) -> Client:
        return await self.member("computer", name, **how)

    async def names(self, who: Client) -> list[str]:
        return [one["name"] for one in (await who.list_room(self.office_id))["sessions"]]


@pytest.fixture
async def room(hosted: Hosted) -> AsyncIterator[Room]:
    async with AsyncExitStack() as stack:
        yield Room(hosted.clients(stack), hosted.token, f"office-{secrets.token_hex(4)}")


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as made:
        yield made


# ---- the handshake of versions --------------------------------------------------------------------------

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
        (
            "&a2c_version=abc",
            {"code": 400, "message": "Invalid a2c_version: Invalid version: abc"},
            None,
        ),
        ("&a2c_version=1.0.0", MISMATCH, "4008"),
    ],
    ids=["absent", "no version", "another version"],
)
async def test_a_handshake_is_refused(
    both: list[Hosted], query: str, body: dict[str, Any], code: str | None
) -> None:
    """By 400 and JSON with its length, before Socket.IO sees anything; by the same bytes to who polls and to
    who comes as a WebSocket, over HTTP and over TLS."""
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
async def test_a_version_of_before_is_accepted(room: Room, version: str | None) -> None:
    """Whatever its patch; and none at all, with the token in a header."""
    if version is None:
        client = await room.clients.client(None, None, headers={"x-api-key": room.token})
    else:
        client = await room.client(version=version)
    assert await client.join("computer", "hands", room.office_id) == [True, None]
    [session] = (await client.list_room(room.office_id))["sessions"]
    assert session.get("a2c_version") == version


@pytest.mark.parametrize("version", ["0.1.9", "0.5.0", "1.0.0"])
async def test_another_line_of_versions_is_refused(room: Room, version: str) -> None:
    """Of both the least and the greatest that are accepted are told."""
    async with aiohttp.ClientSession() as session:
        where = f"{room.clients.url}/socket.io/?EIO=4&transport=polling&a2c_version={version}"
        async with session.get(where) as answer:
            said = await answer.json()
    assert (answer.status, said) == (400, {**MISMATCH, "client_version": version})
    with pytest.raises(socketio.exceptions.ConnectionError):
        await room.client(version=version)


async def test_the_letter_takes_one_version() -> None:
    """By the published rule, and reports that."""
    async with (
        offices_on(profile="spec", versions=(Line(0, 4),), accept_unversioned=False) as running,
        aiohttp.ClientSession() as session,
    ):
        assert await (await running.client(version="0.4.9")).join("agent", "boss") == [True, None]
        where = f"{running.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.3.1"
        async with session.get(where) as answer:
            said = await answer.json()
        assert (said["min_supported"], said["max_supported"]) == ("0.4.0", "0.4.999")


# ---- who is in an office --------------------------------------------------------------------------------


async def test_an_agent_joins_its_office_again(room: Room) -> None:
    """Nobody is told; by another name it is refused."""
    agent, computer = await room.agent(), await room.computer()
    assert await agent.join("agent", "boss", room.office_id) == [True, None]
    assert await agent.join("agent", "chief", room.office_id) == [False, "Already in the office as 'boss'"]
    assert await computer.quiet() == []
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
    """From its first join to its end, in whatever office."""
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
    """Everything is checked before anything is left: nobody hears of it, here or there."""
    agent, computer = await room.agent(), await room.computer()
    there = room.other()
    chief, namesake = await there.agent("chief"), await there.computer()
    for one in (agent, chief):
        await one.until("notify:enter_office")
    answer = await computer.join("computer", "hands", there.office_id)
    assert answer == [False, "Name 'hands' is taken in the office"]
    computer.answers[TOOL_CALL] = RESULT
    assert await agent.call("hands") == RESULT
    for one in (agent, chief, namesake):
        assert await one.quiet() == []


async def test_names_are_unique_in_one_office(room: Room) -> None:
    """Across both roles; the same name in two offices is two members."""
    agent, computer = await room.agent(), await room.computer()
    rival = await room.client()
    assert await rival.join("computer", "boss", room.office_id) == [
        False,
        "Name 'boss' is taken in the office",
    ]
    chief, namesake = await room.other().agent("chief"), await room.other().computer()
    computer.answers[TOOL_CALL], namesake.answers[TOOL_CALL] = {**RESULT, "n": 1}, {**RESULT, "n": 2}
    assert ((await agent.call("hands"))["n"], (await chief.call("hands"))["n"]) == (1, 2)


async def test_whoever_has_left_hears_nothing(room: Room) -> None:
    """And whoever leaves an office in which it is not changes nothing."""
    agent, computer = await room.agent(), await room.computer()
    await agent.until("notify:enter_office")
    assert await computer.leave(room.other().office_id) == [False, "Not in office"]
    assert await room.names(agent) == ["boss", "hands"]
    assert await computer.leave(room.office_id) == [True, None]
    assert await agent.until("notify:leave_office") == {"office_id": room.office_id, "computer": "hands"}
    other = await room.computer("feet")
    await other.tell("server:update_config", {"computer": "feet"})
    await agent.until("notify:update_config")
    assert await computer.quiet() == []


# ---- calls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1, 3601, "5", 1.5, None, True])
async def test_a_time_limit_is_a_number_of_seconds_up_to_an_hour(room: Room, seconds: Any) -> None:
    """Or the call is refused at once, with the field's name."""
    agent, computer = await room.agent(), await room.computer()
    said = {name: GOOD[kind] for name, kind in CLIENT_EVENTS[TOOL_CALL].required.items()}
    answer = await agent.ask(TOOL_CALL, {**said, "computer": "hands", "timeout": seconds})
    assert (answer["code"], "'timeout'" in answer["message"]) == (400, True)
    assert not any(event == TOOL_CALL for event, _ in await computer.quiet())


async def test_a_call_has_five_seconds_beyond_its_limit(room: Room) -> None:
    """A Computer's own answer to that may be on its way. Then it is told to stop, and the Agent has a
    result."""
    agent, computer = await room.agent(), await room.computer()
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    began = time.monotonic()
    calling = asyncio.create_task(agent.call("hands", "late", seconds=1))
    await computer.until(TOOL_CALL)
    asyncio.get_running_loop().call_later(3.0, answer.set_result, RESULT)
    assert await calling == RESULT
    assert time.monotonic() - began > 3
    computer.answers[TOOL_CALL] = asyncio.Future()
    began = time.monotonic()
    late = await agent.call("hands", "never", seconds=1)
    assert (late["isError"], late["meta"]) == (True, {"a2c_timeout": True})
    assert 6 <= time.monotonic() - began < 6 + PATIENCE / 2
    assert (await computer.until("notify:tool_call_cancel"))["req_id"] == "never"


async def test_whose_request_it_is_its_connection_says(room: Room) -> None:
    """Whatever it says of itself: honest clients say something else than the name that they joined by."""
    agent, computer = await room.agent(), await room.computer()
    computer.answers["client:get_tools"] = {"tools": [], "req_id": "tools"}
    for name in ("boss", "somebody else", ""):
        said = {"agent": name, "req_id": "tools", "computer": "hands"}
        assert await agent.ask("client:get_tools", said) == computer.answers["client:get_tools"]
        assert await computer.until("client:get_tools") == said
    # The name of an Agent that is in the office gives a stranger nothing.
    stranger = await room.client()
    answer = await stranger.ask("client:get_tools", {"agent": "boss", "req_id": "tools", "computer": "hands"})
    assert answer["code"] == 404


async def test_a_strangers_cancel_is_audited(hosted: Hosted, room: Room) -> None:
    """The call goes on, and `palaver audit` has it."""
    agent, computer = await room.agent(), await room.computer()
    stranger = await room.other().agent("chief")
    answer: asyncio.Future[Any] = asyncio.Future()
    computer.answers[TOOL_CALL] = answer
    req_id = secrets.token_hex(8)
    calling = asyncio.create_task(agent.call("hands", req_id))
    await computer.until(TOOL_CALL)
    await stranger.tell("server:tool_call_cancel", {"agent": "boss", "req_id": req_id})
    await stranger.quiet()
    assert await computer.quiet() == []
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
    """Where something in between lets no WebSockets through, too."""
    agent, computer = await room.agent(transports=[transport]), await room.computer(transports=[transport])
    for size in (1, 300_000):
        computer.answers[TOOL_CALL] = {**RESULT, "content": [{"type": "text", "text": "x" * size}]}
        assert await agent.call("hands", f"{size}") == computer.answers[TOOL_CALL]
    assert await agent.until("notify:enter_office") == {"office_id": room.office_id, "computer": "hands"}


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_a_frame_that_is_too_large_ends_its_connection(room: Room, transport: str) -> None:
    """Above 1,000,000 bytes. Everybody is told, calls of others go on, and so does the node."""
    agent, computer = await room.agent(), await room.computer(transports=[transport])
    steady = await room.computer("steady")
    answer: asyncio.Future[Any] = asyncio.Future()
    steady.answers[TOOL_CALL] = answer
    goes_on = asyncio.create_task(agent.call("steady", "steady"))
    await steady.until(TOOL_CALL)
    computer.answers[TOOL_CALL] = {**RESULT, "content": [{"type": "text", "text": "x" * TOO_LARGE}]}
    lost = await agent.call("hands", "large", seconds=60)
    assert (lost["code"], lost["details"]) == (404, {"computer_name": "hands"})
    assert await agent.until("notify:leave_office") == {"office_id": room.office_id, "computer": "hands"}
    async with asyncio.timeout(PATIENCE):
        await computer.io.wait()
    answer.set_result(RESULT)
    assert await goes_on == RESULT
    again = await room.computer()
    again.answers[TOOL_CALL] = {**RESULT, "content": [{"type": "text", "text": "x" * 900_000}]}
    assert len((await agent.call("hands", "as large as may be"))["content"][0]["text"]) == 900_000


# ---- published clients ----------------------------------------------------------------------------------


async def test_published_clients_speak_tls(hosted: Hosted, tmp_path: Path) -> None:
    """With the node's own certificate, whose authority they are told."""
    authority = hosted.node.data / "tls" / "ca.pem"
    async with Peers(tmp_path, SSL_CERT_FILE=str(authority)) as peers:
        agent, computer = await peers.agent("0.4.2"), await peers.computer("0.4.2")
        office = f"office-{secrets.token_hex(4)}"
        pair = Pair(peers, agent, computer, hosted.expectations(office, "https"))
        for step in (arrive, walk_call, walk_large):
            await pair.walk(step)


@pytest.mark.parametrize("version", ["0.2.2", "0.3.3"])
async def test_an_older_computer_is_sent_no_upload(hosted: Hosted, peers: Peers, version: str) -> None:
    """Its version decides, not the Agent's: that one is told at once, and the Computer hears nothing."""
    agent, computer = await peers.agent("0.4.2"), await peers.computer(version)
    pair = Pair(peers, agent, computer, hosted.expectations(f"office-{secrets.token_hex(4)}"))
    await pair.walk(arrive)
    computer.forget()
    began = time.monotonic()
    with pytest.raises(Refused) as refused:
        await agent.do("put_blob", computer=computer.name, data="AAAA", name_hint="x.bin")
    assert time.monotonic() - began < PATIENCE / 2
    assert refused.value.told["reason"] == "protocol_error_404"
    answer = await agent.until("ack client:put_blob")
    assert (answer["code"], answer["details"]) == (404, {"reason": "event_not_supported"})
    assert computer.reports == []
    await pair.walk(walk_call)


async def test_an_older_agent_may_upload_to_a_newer_computer(room: Room) -> None:
    """Gates are by the version of whoever is asked."""
    agent, computer = await room.agent(version="0.2.0"), await room.computer(version="0.4.0")
    said = {name: GOOD[kind] for name, kind in CLIENT_EVENTS["client:put_blob"].required.items()}
    computer.answers["client:put_blob"] = {"upload_id": "u", "chunk_offset": 0, "req_id": "1"}
    answer = await agent.ask("client:put_blob", {**said, "computer": "hands"})
    assert answer == computer.answers["client:put_blob"]


# ---- errors ---------------------------------------------------------------------------------------------

SKILL = {"computer": "bench", "name": "notes"}
READ = {"computer": "bench", "handle": "h"}
WRITE = {"computer": "bench", "data": "AAAA"}


def error(code: int, *, details: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    known = {} if details is None else {"details": dict(details)}
    return {"code": code, "message": f"error {code}", **more, **known}


def reasons(code: int, *names: str) -> list[dict[str, Any]]:
    return [error(code, details={"reason": name}) for name in names]


RECOGNISED: Final[list[tuple[str, str, dict[str, Any], dict[str, Any]]]] = [
    ("client:get_resources", "resources", {"computer": "bench", "mcp_server": "x"}, one)
    for one in (error(4014, mcp_server="x"), error(4015, mcp_server="x", capability="resources"))
]
RECOGNISED += [
    ("client:get_skill", "skill", SKILL, one)
    for one in (
        error(404, details={"computer_name": "bench"}),
        error(4014, details={"name": "notes"}),
        error(4016, details={"name": "No Name"}),
        *reasons(4017, "traversal", "forbidden", "not_found"),
        error(4017, rel_path="x", total_size=10**9, details={"reason": "too_large"}),
    )
]
RECOGNISED += [
    ("client:get_blob", "get_blob", READ, one)
    for one in reasons(4018, "invalid_handle", "forbidden", "gone", "range")
]
RECOGNISED += [
    ("client:put_blob", "put_blob", WRITE, one)
    for one in reasons(
        4019,
        "invalid_upload",
        "invalid_declaration",
        "range",
        "too_large",
        "busy",
        "forbidden",
        "integrity",
        "io_error",
    )
]
DOCUMENTED: Final = (400, 401, 403, 408, 500, 4001, 4002, 4003, 4004, 4005, 4101, 4102, 4103, 4104)


@pytest.fixture(scope="module")
async def asking(
    both: list[Hosted], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[PublishedAgent, Client]]:
    """A published Agent, and a bare Computer that answers what it is told to."""
    hosted = both[0]
    async with AsyncExitStack() as stack, Peers(tmp_path_factory.mktemp("smcp")) as peers:
        room = Room(hosted.clients(stack), hosted.token, f"office-{secrets.token_hex(4)}")
        computer = await room.computer("bench")
        agent = await peers.agent("0.4.2")
        await connect(agent, hosted.expectations(room.office_id))
        await agent.do("join", office=room.office_id, name="planner")
        await computer.until("notify:enter_office")
        yield agent, computer


@pytest.mark.parametrize(
    ("event", "command", "asked", "said"),
    RECOGNISED,
    ids=[
        f"{said['code']}-{said.get('details', {}).get('reason', command)}"
        for _, command, _, said in RECOGNISED
    ],
)
async def test_an_error_of_a_computer_reaches_a_published_agent(
    asking: tuple[PublishedAgent, Client],
    event: str,
    command: str,
    asked: dict[str, Any],
    said: dict[str, Any],
) -> None:
    """As it is, flat: it raises what it knows by the code."""
    agent, computer = asking
    computer.answers[event] = said
    agent.forget()
    with pytest.raises(Refused) as refused:
        await agent.do(command, **asked)
    told = refused.value.told
    # What an upload raises has no code, and no details but the reason.
    assert (told["type"], told.get("code")) == (
        ("BlobUploadError", None) if command == "put_blob" else ("SMCPProtocolError", said["code"])
    )
    assert told.get("reason") == said.get("details", {}).get("reason")
    assert await agent.until(f"ack {event}") == said


@pytest.mark.parametrize("code", [4006, 4007])
async def test_an_upstream_that_wants_authorisation_is_told_in_the_result(
    asking: tuple[PublishedAgent, Client], code: int
) -> None:
    """Within its `meta`, which comes through untouched."""
    agent, computer = asking
    computer.answers[TOOL_CALL] = {**RESULT, "isError": True, "meta": {"error_code": code, "server": "x"}}
    result = await agent.do("call", computer="bench", tool="add", params={}, limit=30)
    assert (result["isError"], result["meta"]) == (True, {"error_code": code, "server": "x"})


@pytest.mark.parametrize("code", DOCUMENTED)
async def test_a_code_that_nobody_knows_ends_the_call_at_once(
    asking: tuple[PublishedAgent, Client], code: int
) -> None:
    """A call becomes a result that failed, a getter raises; others have it as the Computer said it."""
    agent, computer = asking
    agent.forget()
    began = time.monotonic()
    for event in (TOOL_CALL, "client:get_tools"):
        computer.answers[event] = error(code, details={"reason": "whatever", "deep": [1]})
    result = await agent.do("call", computer="bench", tool="add", params={}, limit=30)
    assert result["isError"]
    with pytest.raises(Refused):
        await agent.do("tools", computer="bench")
    for event in (TOOL_CALL, "client:get_tools"):
        assert await agent.until(f"ack {event}") == computer.answers[event]
    assert time.monotonic() - began < PATIENCE / 2


# ---- the tables -----------------------------------------------------------------------------------------

_SERVER: Final = "tests/bridge/connectors/offices/service/test_server.py::"
_PUBLISHED: Final = "tests/interop/test_published_offices.py::"
_KILL: Final = "tests/interop/test_office_kill.py::"
_SHARED: Final = "tests/bridge/connectors/offices/service/test_shared_offices.py::"
_ACROSS: Final = "tests/interop/test_offices_across.py::"
_HERE: Final = "tests/interop/test_office_tables.py::"
# A step of `STEPS`, which `test_published_offices.py::test_a_step` takes with each published version.
_STEP: Final = "step "

Table = Mapping[str, tuple[str, ...]]

HANDSHAKE: Final[Table] = {
    "parameter absent": (f"{_HERE}test_a_handshake_is_refused",),
    "not three integers": (f"{_HERE}test_a_handshake_is_refused",),
    "incompatible": (
        f"{_HERE}test_a_handshake_is_refused",
        f"{_HERE}test_another_line_of_versions_is_refused",
    ),
    "incompatible, direct WebSocket": (f"{_HERE}test_a_handshake_is_refused",),
}

EVENTS: Final[Table] = {
    "client:tool_call": (f"{_STEP}walk_call", f"{_STEP}walk_calls_at_once", f"{_STEP}walk_large"),
    "client:get_config": (f"{_STEP}walk_config",),
    "client:get_tools": (f"{_STEP}walk_tools",),
    "client:get_desktop": (f"{_STEP}walk_desktop",),
    "client:get_resources": (f"{_STEP}walk_resources",),
    "client:get_skills": (f"{_STEP}walk_skills",),
    "client:get_skill": (f"{_STEP}walk_skills",),
    "client:get_blob": (f"{_STEP}walk_get_blob",),
    "client:put_blob": (f"{_STEP}walk_put_blob", f"{_HERE}test_an_older_computer_is_sent_no_upload"),
    "server:join_office": (f"{_STEP}walk_join_again", f"{_SERVER}test_a_malformed_join_names_the_field"),
    "server:leave_office": (f"{_STEP}walk_leave",),
    "server:list_room": (f"{_STEP}walk_list",),
    "server:update_config": (f"{_STEP}walk_notifications",),
    "server:update_tool_list": (f"{_STEP}walk_notifications",),
    "server:update_desktop": (f"{_STEP}walk_notifications",),
    "server:update_skills": (f"{_STEP}walk_notifications",),
    "server:tool_call_cancel": (f"{_STEP}walk_cancel",),
    "notify:enter_office": (f"{_STEP}walk_leave", f"{_SERVER}test_the_others_are_told_who_comes_and_goes"),
    "notify:leave_office": (f"{_STEP}walk_leave", f"{_STEP}walk_disconnect"),
    "notify:update_config": (f"{_STEP}walk_notifications",),
    "notify:update_tool_list": (f"{_STEP}walk_notifications",),
    "notify:update_desktop": (f"{_STEP}walk_notifications",),
    "notify:update_skills": (f"{_STEP}walk_notifications",),
    "notify:tool_call_cancel": (f"{_STEP}walk_cancel",),
}

_REACHES: Final = f"{_HERE}test_an_error_of_a_computer_reaches_a_published_agent"
ERRORS: Final[Table] = {
    "404 not found": (f"{_STEP}walk_unknown_computer", _REACHES),
    "4006 / 4007 upstream authorisation required / failed": (
        f"{_HERE}test_an_upstream_that_wants_authorisation_is_told_in_the_result",
    ),
    "4008 version": (f"{_HERE}test_a_handshake_is_refused",),
    "4014 server (or skill) unknown": (f"{_STEP}walk_resources", _REACHES),
    "4015 capability missing": (_REACHES,),
    "4016 bad skill name": (f"{_STEP}walk_skills", _REACHES),
    "4017 skill resource": (f"{_STEP}walk_skills", _REACHES),
    "4018 blob read": (f"{_STEP}walk_get_blob", _REACHES),
    "4019 blob write": (_REACHES,),
    "400 401 403 408 500, 4001–4005, 4101 4102 4103 4104": (
        f"{_HERE}test_a_code_that_nobody_knows_ends_the_call_at_once",
        f"{_SERVER}test_the_letter_says_more",
    ),
}

DECISIONS: Final[Table] = {
    "accepted protocol versions": (
        f"{_HERE}test_a_version_of_before_is_accepted",
        f"{_HERE}test_another_line_of_versions_is_refused",
        f"{_HERE}test_the_letter_takes_one_version",
    ),
    "version on WebSocket scope": (f"{_HERE}test_a_handshake_is_refused",),
    "credential": (
        f"{_SERVER}test_who_shows_no_token_is_refused",
        f"{_SERVER}test_clients_of_before_the_handshake_show_it_in_a_header",
        f"{_SERVER}test_a_token_says_which_roles_and_offices",
        f"{_PUBLISHED}test_a_wrong_token_lets_nobody_in",
    ),
    "second Agent in an office": (
        f"{_SERVER}test_a_refused_join_hears_nothing",
        f"{_PUBLISHED}test_a_second_agent_is_told_at_its_first_call",
    ),
    "same Agent joins same office again": (
        f"{_STEP}walk_join_again",
        f"{_HERE}test_an_agent_joins_its_office_again",
    ),
    "Agent in A joins B": (f"{_HERE}test_an_agent_leaves_before_it_joins_another_office",),
    "role changes on one connection": (f"{_HERE}test_a_connection_has_one_role",),
    "Computer joins another office": (
        f"{_SERVER}test_a_computer_moves",
        f"{_HERE}test_a_computer_that_cannot_move_stays",
    ),
    "name uniqueness": (
        f"{_HERE}test_names_are_unique_in_one_office",
        f"{_PUBLISHED}test_one_name_is_one_computers",
    ),
    "refused join": (f"{_SERVER}test_a_refused_join_hears_nothing",),
    "malformed join": (f"{_SERVER}test_a_malformed_join_names_the_field",),
    "leave of an office one is not in": (f"{_HERE}test_whoever_has_left_hears_nothing",),
    "disconnect, server stop": (
        f"{_STEP}walk_disconnect",
        f"{_SERVER}test_when_the_server_stops_everybody_leaves",
        f"{_KILL}test_a_node_is_killed",
    ),
    "call before joining": (
        f"{_SERVER}test_isolation_is_answered_at_once",
        f"{_SERVER}test_the_letter_says_more",
    ),
    "cross-office client:*": (
        f"{_SERVER}test_isolation_is_answered_at_once",
        f"{_SERVER}test_the_letter_says_more",
    ),
    "unknown Computer": (
        f"{_STEP}walk_unknown_computer",
        f"{_SERVER}test_isolation_is_answered_at_once",
    ),
    "target is not a Computer, caller is not an Agent": (f"{_SERVER}test_isolation_is_answered_at_once",),
    "malformed or unknown client:*": (
        f"{_SERVER}test_whatever_is_said_is_answered",
        f"{_SERVER}test_isolation_is_answered_at_once",
    ),
    "the agent field": (f"{_HERE}test_whose_request_it_is_its_connection_says",),
    "list_room": (
        f"{_SERVER}test_an_office_is_listed_to_its_members",
        f"{_SERVER}test_it_is_listed_before_the_join_where_that_is_configured",
        f"{_SERVER}test_the_letter_says_more",
    ),
    "server:update_*": (f"{_SERVER}test_what_a_computer_has_changed_the_others_are_told",),
    "relay deadline": (
        f"{_HERE}test_a_time_limit_is_a_number_of_seconds_up_to_an_hour",
        f"{_HERE}test_a_call_has_five_seconds_beyond_its_limit",
    ),
    "deadline passes on tool_call": (
        f"{_HERE}test_a_call_has_five_seconds_beyond_its_limit",
        f"{_SERVER}test_a_call_that_takes_too_long_is_stopped",
    ),
    "deadline passes on others": (f"{_SERVER}test_what_is_not_answered_ends_too",),
    "cancel": (
        f"{_STEP}walk_cancel",
        f"{_SERVER}test_an_agent_takes_its_call_back",
        f"{_HERE}test_a_strangers_cancel_is_audited",
    ),
    "Computer disconnects mid-call": (
        f"{_PUBLISHED}test_a_computer_that_is_lost_is_answered_for",
        f"{_KILL}test_a_computer_is_killed",
    ),
    "Computer's answer": (
        f"{_SERVER}test_what_is_asked_is_brought_and_its_answer_brought_back",
        _REACHES,
    ),
    "event unknown to the target's version, or empty ack from it": (
        f"{_HERE}test_an_older_computer_is_sent_no_upload",
        f"{_SERVER}test_an_answer_that_is_none_is_said_to_be_none",
    ),
    "repeated req_id in flight": (f"{_SERVER}test_a_call_that_is_repeated_is_made_once",),
    "two nodes each seat an Agent": (f"{_SHARED}test_two_agents_that_sat_down_while_nodes_were_cut_off",),
    "office on another node": (
        f"{_SHARED}test_an_agent_here_and_a_computer_there",
        f"{_ACROSS}test_a_step",
    ),
    # Beside the table: what the numbers and traps of the protocol come to.
    "a frame above 1,000,000 bytes": (f"{_HERE}test_a_frame_that_is_too_large_ends_its_connection",),
    "clients start with polling and upgrade": (
        f"{_HERE}test_either_transport_alone_is_enough",
        f"{_SERVER}test_both_transports_lead_there",
    ),
    "TLS": (f"{_HERE}test_published_clients_speak_tls",),
    "mixed versions in one office": (
        f"{_PUBLISHED}test_versions_meet_in_one_office",
        f"{_HERE}test_an_older_agent_may_upload_to_a_newer_computer",
    ),
}

ROWS: Final = [
    (name, row, tests)
    for name, table in (
        ("handshake", HANDSHAKE),
        ("events", EVENTS),
        ("errors", ERRORS),
        ("decisions", DECISIONS),
    )
    for row, tests in table.items()
]


@pytest.mark.parametrize(
    ("tests", "row"),
    [(tests, row) for _, row, tests in ROWS],
    ids=[f"{name}: {row}" for name, row, _ in ROWS],
)
def test_each_row_has_a_test(tests: tuple[str, ...], row: str) -> None:
    """It is there, under the name that stands here."""
    assert tests, f"{row} has no test"
    for test in tests:
        if test.startswith(_STEP):
            assert test.removeprefix(_STEP) in {step.__name__ for step in STEPS}, test
        else:
            file, _, name = test.partition("::")
            assert name in _tests_in(file), test


def test_all_events_are_in_the_table() -> None:
    """Those that are said to the server, to Computers and to all who are there."""
    told = {"notify:enter_office", "notify:leave_office", "notify:tool_call_cancel", *UPDATES.values()}
    assert set(EVENTS) == {*CLIENT_EVENTS, *SERVER_EVENTS, *told}
    assert len(EVENTS) == 24


@cache
def _tests_in(file: str) -> frozenset[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, functions))
