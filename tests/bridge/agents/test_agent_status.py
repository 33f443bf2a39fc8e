"""The statuses of agents: every state × every input."""

from itertools import product

import pytest

from bridge.agents.agent import TRANSITIONS, WIRE_STATUSES, AgentStatus, StatusInput, next_status, parse_status

# Appendix A, transition by transition. "running counts as available, like idle"; "any —shutdown→ shutdown".
ARROWS = {
    ("initial", "register"): "idle",
    ("idle", "start"): "busy",
    ("running", "start"): "busy",
    ("busy", "complete"): "idle",
    ("busy", "error"): "error",
    ("error", "recover"): "idle",
    **{(status.value, "shutdown"): "shutdown" for status in AgentStatus},
}


@pytest.mark.parametrize(("status", "message"), list(product(AgentStatus, StatusInput)))
def test_every_state_and_every_input(status: AgentStatus, message: StatusInput) -> None:
    """The transitions of the specification, and no others."""
    assert next_status(status, message) == ARROWS.get((status.value, message.value))


def test_every_status_but_running_is_reachable() -> None:
    """`running` is only reported; no transition leads there."""
    reached = {AgentStatus.INITIAL}
    for _ in AgentStatus:
        reached |= {end for (begin, _), end in TRANSITIONS.items() if begin in reached}
    assert reached == set(AgentStatus) - {AgentStatus.RUNNING}


def test_shutdown_is_final() -> None:
    """An agent that comes back registers anew."""
    assert {end for (begin, _), end in TRANSITIONS.items() if begin is AgentStatus.SHUTDOWN} == {AgentStatus.SHUTDOWN}


@pytest.mark.parametrize("status", sorted(WIRE_STATUSES))
def test_the_statuses_of_the_specification_are_parsed(status: AgentStatus) -> None:
    """All five."""
    assert parse_status(status.value) is status


@pytest.mark.parametrize("said", ["initial", "IDLE", "", "offline", None, 3, ["idle"], {"idle": 1}])
def test_anything_else_is_no_status(said: object) -> None:
    """Of any type: it comes from other nodes. `initial` is never sent."""
    assert parse_status(said) is None


def test_available_statuses() -> None:
    """`running` counts as available, like `idle`."""
    assert {status for status in AgentStatus if status.is_available} == {AgentStatus.IDLE, AgentStatus.RUNNING}
