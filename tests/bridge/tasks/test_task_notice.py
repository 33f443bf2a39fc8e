"""Notifications between processes about tasks."""

import pytest

from bridge.agents.address import AgentAddress
from bridge.tasks.lease import notice_of, read_notice
from bridge.tasks.request import TaskKey
from storage.session import MAX_PAYLOAD_BYTES


@pytest.mark.parametrize(
    "about", [TaskKey('n"o\\de', "\x01" * 255), AgentAddress('w"o\\rker', "here")], ids=["task", "agent"]
)
def test_a_notice_is_read_as_it_was_written(about: TaskKey | AgentAddress) -> None:
    """Whatever the ids contain, up to their maximum length."""
    notice = notice_of(about)
    assert read_notice(notice) == about
    assert len(notice.encode()) < MAX_PAYLOAD_BYTES


@pytest.mark.parametrize("notice", ["", "{", "[]", '["a"]', '["a","b",3]', "\ud800", '{"a":1}'])
def test_an_invalid_notice_is_ignored(notice: str) -> None:
    """Every client of the database may send one."""
    assert read_notice(notice) is None
