"""The task request of a message."""

from typing import Any

from bridge.people.interpret import task_request
from bridge.tasks.request import TaskRequest, check_request
from tests.support.agents import address


def request(agent: str = "worker@here", **changed: Any) -> TaskRequest:
    known: dict[str, Any] = {
        "event_id": "$asked",
        "room_id": "!room",
        "user": "@alice:there",
        "requester": address("alice:there@here"),
    }
    return task_request(address(agent), "Peel", **{**known, **changed})


def test_one_message_is_one_task_for_each_agent() -> None:
    """However often it is handled. An edit is another task."""
    assert request() == request()
    keys = {request().key, request("helper@here").key, request(event_id="$edit").key}
    assert len(keys) == 3
    assert {key.node_id for key in keys} == {"here"}


def test_the_request_is_valid() -> None:
    """However long the ids in it are."""
    asked = request(event_id="$" + "e" * 254, room_id="!" + "r" * 254)
    assert check_request(asked, 10_000) is None
    assert asked.task_id.startswith("t-")
    assert asked.metadata == {"asked_by": "@alice:there"}
    assert asked.origin.protocol == "people"
