"""Limits on requested tasks."""

from dataclasses import replace

import pytest

from bridge.agents.address import AgentAddress
from bridge.tasks.errors import ErrorCode
from bridge.tasks.limits import TaskLimiter, TaskLimits
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from federation.peers.limits import Rate

REQUEST = TaskRequest(
    TaskKey("living", "req-1"),
    "task-1",
    AgentAddress("coordinator", "living"),
    AgentAddress("worker", "kitchen"),
    "Implement a function",
    Origin("cis"),
)
OTHER_AGENT = replace(REQUEST, from_address=AgentAddress("other", "living"))
OTHER_NODE = replace(REQUEST, key=TaskKey("attic", "req-1"), from_address=AgentAddress("coordinator", "attic"))


@pytest.mark.parametrize(("asked", "given"), [(None, 300_000), (1_000, 1_000), (10**15, 600_000), (0, 1), (-5, 1)])
def test_the_timeout_is_capped(asked: int | None, given: int) -> None:
    """300 s by default, and never more than the configuration allows."""
    assert TaskLimits(max_timeout_ms=600_000).timeout_ms(asked) == given
    assert TaskLimits(default_timeout_ms=10**9, max_timeout_ms=5).timeout_ms(None) == 5


def test_one_agent_cannot_exhaust_the_node_limit() -> None:
    """Its own limit is reached first, and the error says when to retry."""
    limiter = TaskLimiter(TaskLimits(agent_rate=Rate(1, 2), node_rate=Rate(100, 100)))
    assert limiter.check(REQUEST, 50.0) is None
    assert limiter.check(REQUEST, 50.0) is None
    error = limiter.check(REQUEST, 50.0)
    assert error is not None
    assert (error.code, error.metadata) == (ErrorCode.AGENT_BUSY, {"retry_after_ms": 1_000})
    assert limiter.check(OTHER_AGENT, 50.0) is None
    assert limiter.check(REQUEST, 51.0) is None


def test_one_node_cannot_exhaust_the_limits_of_others() -> None:
    """However many agents it invents."""
    limiter = TaskLimiter(TaskLimits(node_rate=Rate(1, 2)))
    agents = [replace(REQUEST, from_address=AgentAddress(f"a{number}", "living")) for number in range(3)]
    errors = [limiter.check(request, 50.0) for request in agents]
    assert errors[:2] == [None, None]
    assert errors[2] is not None
    assert "The node living" in errors[2].reason
    assert limiter.check(OTHER_NODE, 50.0) is None


def test_a_request_that_is_too_large_is_refused_with_the_field() -> None:
    """It counts against the rate too."""
    limiter = TaskLimiter(TaskLimits(max_request_bytes=100, agent_rate=Rate(1, 2)))
    error = limiter.check(replace(REQUEST, prompt="x" * 100), 50.0)
    assert error is not None
    assert (error.code, error.metadata) == (ErrorCode.INVALID_PAYLOAD, {"field": "task"})


def test_live_tasks_are_limited() -> None:
    """Of one node, and of all nodes together."""
    limiter = TaskLimiter(TaskLimits(max_live_per_node=7, max_live=20))
    assert limiter.check_live_tasks("living", 6, 19) is None
    for counts, words in (((7, 7), "7 tasks of the node living"), ((6, 20), "too many tasks")):
        error = limiter.check_live_tasks("living", *counts)
        assert error is not None
        assert error.code is ErrorCode.AGENT_BUSY
        assert words in error.reason
