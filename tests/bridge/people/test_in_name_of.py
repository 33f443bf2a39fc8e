"""In whose name a task is asked for."""

from dataclasses import replace

import pytest

from bridge.control.agents.context import PROTOCOL
from bridge.people.requester import OPERATOR, in_name_of
from bridge.people.settings import NAME
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from tests.support.agents import address

REQUEST = TaskRequest(
    key=TaskKey("here", "req-1"),
    task_id="task-1",
    from_address=address("alice:there@here"),
    to_address=address("worker@here"),
    prompt="Peel the potatoes",
    origin=Origin(NAME),
)


def test_operators_ask_in_the_protocol_that_is_believed() -> None:
    """Its name is known in two places."""
    assert OPERATOR == PROTOCOL


@pytest.mark.parametrize("protocol", [NAME, OPERATOR])
def test_people_and_operators_are_believed(protocol: str) -> None:
    """An operator who asks in nobody's name is no person."""
    assert in_name_of(replace(REQUEST, origin=Origin(protocol)), "here") == "@alice:there"
    own = replace(REQUEST, origin=Origin(protocol), from_address=address("operator@here"))
    assert in_name_of(own, "here") is None


def test_others_are_not() -> None:
    """An agent may be called as a person's address is; and one of another node is nobody of this one."""
    assert in_name_of(replace(REQUEST, origin=Origin("cis")), "here") is None
    assert in_name_of(replace(REQUEST, from_address=address("alice:there@elsewhere")), "here") is None
