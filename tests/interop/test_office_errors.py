"""Errors of Computers, and how published Agents handle them."""

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest

from bridge.connectors.offices.protocol.events import TOOL_CALL
from tests.bridge.connectors.offices.clients import TIMEOUT, Client
from tests.interop.office_room import RESULT, Hosted, Room, both
from tests.support.smcp import Peers, PublishedAgent, Refused
from tests.support.smcp.walk_membership import connect

__all__ = ["both"]
pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office tables")]

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
    ("client:get_blob", "get_blob", READ, one) for one in reasons(4018, "invalid_handle", "forbidden", "gone", "range")
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
    """A published Agent, and a bare Computer that answers as the test says."""
    hosted = both[0]
    async with AsyncExitStack() as stack, Peers(tmp_path_factory.mktemp("smcp")) as peers:
        room = Room(hosted.clients(stack), hosted.token, f"office-{secrets.token_hex(4)}")
        computer = await room.computer("bench")
        agent = await peers.agent("0.4.2")
        await connect(agent, hosted.expectations(room.office_id))
        await agent.do("join", office=room.office_id, name="planner")
        await computer.wait_for("notify:enter_office")
        yield agent, computer


@pytest.mark.parametrize(
    ("event", "command", "asked", "said"),
    RECOGNISED,
    ids=[f"{said['code']}-{said.get('details', {}).get('reason', command)}" for _, command, _, said in RECOGNISED],
)
async def test_an_error_of_a_computer_reaches_a_published_agent(
    asking: tuple[PublishedAgent, Client], event: str, command: str, asked: dict[str, Any], said: dict[str, Any]
) -> None:
    """Unchanged and flat: the Agent raises the exception for its code."""
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
async def test_a_required_authorisation_is_in_the_result(asking: tuple[PublishedAgent, Client], code: int) -> None:
    """In its `meta`, which is passed on unchanged."""
    agent, computer = asking
    computer.answers[TOOL_CALL] = {**RESULT, "isError": True, "meta": {"error_code": code, "server": "x"}}
    result = await agent.do("call", computer="bench", tool="add", params={}, limit=30)
    assert (result["isError"], result["meta"]) == (True, {"error_code": code, "server": "x"})


@pytest.mark.parametrize("code", DOCUMENTED)
async def test_an_unknown_code_ends_the_call_at_once(asking: tuple[PublishedAgent, Client], code: int) -> None:
    """A call gives a failed result, a getter raises; other clients get the Computer's error unchanged."""
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
    assert time.monotonic() - began < TIMEOUT / 2
