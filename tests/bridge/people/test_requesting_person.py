"""The person in whose name a task is requested."""

from dataclasses import replace

import pytest

from bridge.control.agents.context import PROTOCOL
from bridge.people.requester import OPERATOR, requesting_person
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


def test_the_operators_protocol_is_the_same_in_both_packages() -> None:
    """Its name is known in two places."""
    assert OPERATOR == PROTOCOL


@pytest.mark.parametrize("protocol", [NAME, OPERATOR])
def test_people_and_operators_request_in_a_persons_name(protocol: str) -> None:
    """An operator without a person does not."""
    assert requesting_person(replace(REQUEST, origin=Origin(protocol)), "here") == "@alice:there"
    own = replace(REQUEST, origin=Origin(protocol), from_address=address("operator@here"))
    assert requesting_person(own, "here") is None


def test_other_protocols_do_not() -> None:
    """An agent may have the address of a person, and addresses of other nodes are not people of this one."""
    assert requesting_person(replace(REQUEST, origin=Origin("cis")), "here") is None
    assert requesting_person(replace(REQUEST, from_address=address("alice:there@elsewhere")), "here") is None
