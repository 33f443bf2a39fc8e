"""Who calls a tool by what is said in a room."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.calls.chat_calls import (
    call_id_of,
    is_for_this_node,
    is_too_old,
    may_order,
    order_line,
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

    return order_line(event(content, **changed), agent_of)


@pytest.mark.parametrize(
    "content",
    [LINE, in_thread("$0:there.test", LINE), reply("$0:there.test", LINE)],
    ids=["", "thread", "reply"],
)
def test_a_person_orders(content: dict[str, Any]) -> None:
    """In a thread and as an answer, too."""
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
def test_nothing_else_is_an_order(content: dict[str, Any]) -> None:
    assert line(content) is None


def test_no_agent_orders() -> None:
    """Of whatever node; nor does what was taken back."""
    assert line(LINE, sender=WORKER) is None
    assert line(LINE, is_redacted=True) is None
    said = event(LINE)
    assert may_order(said, lambda user: False)
    assert not may_order(said, lambda user: True)
    assert not may_order(event(LINE, type="m.reaction"), lambda user: False)


def test_what_was_said_long_ago_is_not_done_any_more() -> None:
    assert not is_too_old(event(LINE), 3_601_000)
    assert is_too_old(event(LINE), 3_601_001)


@pytest.mark.parametrize(
    ("said", "office_id", "here", "everywhere", "is_done"),
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
def test_one_node_does_it(
    said: str, office_id: str, here: list[str], everywhere: list[str], is_done: bool
) -> None:
    """That of the Computer; what is for none, that of the office."""
    assert is_for_this_node(parse(said), office_id, here, everywhere) is is_done


def test_a_message_is_one_call() -> None:
    assert call_id_of("$1") == call_id_of("$1") != call_id_of("$2")
    assert call_id_of("$\ud800").startswith("said-")
