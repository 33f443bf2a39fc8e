"""Which messages are `!call` commands, and which node executes them."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.calls.chat_calls import (
    call_id_of,
    command_line,
    is_for_this_node,
    is_too_old,
    may_be_command,
)
from bridge.connectors.offices.calls.chat_command import parse
from bridge.people.texts.text import MARK
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import edit, in_thread, reply, text

ALICE, WORKER = "@alice:there.test", "@worker:there.test"
LINE = text("!call hands add a=1")


def event(content: dict[str, Any], sender: str = ALICE, **changed: Any) -> RoomEvent:
    return RoomEvent(**{
        "event_id": "$1", "room_id": "!r", "sender": sender, "type": "m.room.message", "content": content,
        "origin_server_ts": 1_000, **changed,
    })  # fmt: skip


def line(content: dict[str, Any], **changed: Any) -> str | None:
    def agent_of(user: str) -> AgentAddress | None:
        return AgentAddress("worker", "there.test") if user == WORKER else None

    return command_line(event(content, **changed), agent_of)


@pytest.mark.parametrize(
    "content", [LINE, in_thread("$0:there.test", LINE), reply("$0:there.test", LINE)], ids=["", "thread", "reply"]
)
def test_a_message_of_a_person_is_a_command(content: dict[str, Any]) -> None:
    """Also in a thread and as a reply."""
    assert line(content) == "hands add a=1"


@pytest.mark.parametrize(
    "content",
    [
        text("say !call hands"),
        {**LINE, "msgtype": "m.notice"},
        {**LINE, "msgtype": "m.emote"},
        {**LINE, MARK: {}},
        {**LINE, "fi.mau.double_puppet_source": "palaver"},
        edit("$0:there.test", LINE),
        {},
        {"body": 1, "msgtype": "m.text"},
    ],
)
def test_other_messages_are_no_commands(content: dict[str, Any]) -> None:
    assert line(content) is None


def test_messages_of_agents_are_no_commands() -> None:
    """Of any node. Nor are redacted messages."""
    assert line(LINE, sender=WORKER) is None
    assert line(LINE, is_redacted=True) is None
    message = event(LINE)
    assert may_be_command(message, lambda user: False)
    assert not may_be_command(message, lambda user: True)
    assert not may_be_command(event(LINE, type="m.reaction"), lambda user: False)


def test_old_messages_are_not_executed() -> None:
    assert not is_too_old(event(LINE), 3_601_000)
    assert is_too_old(event(LINE), 3_601_001)


@pytest.mark.parametrize(
    ("text", "office_id", "local", "everywhere", "is_executed"),
    [
        ("hands add", "a", ["hands"], ["hands"], True),
        ("hands add", "a@there.test", ["hands"], ["hands"], True),
        ("hands add", "a", [], ["hands"], False),
        ("hands add", "a@there.test", [], ["hands"], False),
        ("hands add", "a", [], [], True),
        ("hands add", "a@there.test", [], [], False),
        ("help", "a", [], ["hands"], True),
        ("help", "a@there.test", ["hands"], ["hands"], False),
        ("hands", "a@there.test", ["hands"], ["hands"], False),
    ],
)
def test_one_node_executes_a_command(
    text: str, office_id: str, local: list[str], everywhere: list[str], is_executed: bool
) -> None:
    """The Computer's node, or the office's node if there is no such Computer."""
    assert is_for_this_node(parse(text), office_id, local, everywhere) is is_executed


def test_the_call_id_is_derived_from_the_message() -> None:
    assert call_id_of("$1") == call_id_of("$1") != call_id_of("$2")
    assert call_id_of("$\ud800").startswith("said-")
