"""The fields of agent events."""

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.connectors.cis.protocol.events import Registered, TaskResult, Unregistered

REGISTERED: dict[str, Any] = {
    "agent_id": "worker-1", "node_id": "kitchen.local", "runtime_type": "kimi", "capabilities": ["coding"],
    "timestamp": "2026-02-08T12:00:00Z",
}  # fmt: skip
RESULT: dict[str, Any] = {"success": True, "output": "", "exit_code": 0}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"runtime_type": ""}, "is not a name of 1 to 64 printable characters"),
        ({"runtime_type": " claude"}, "is not a name of 1 to 64 printable characters"),
        ({"runtime_type": "a\nb"}, "is not a name of 1 to 64 printable characters"),
        ({"runtime_type": "x" * 65}, "is not a name of 1 to 64 printable characters"),
        ({"runtime_type": None}, "is not a string"),
        ({"capabilities": "coding"}, "is wrong: capabilities are a list of names"),
        ({"capabilities": {"coding": True}}, "is wrong: capabilities are a list of names"),
        ({"capabilities": ["coding", 1]}, "is wrong: the name of a capability is a string"),
        ({"capabilities": ["x"] * 65}, "is wrong: an agent has at most 64 capabilities"),
    ],
)
def test_a_registration_has_limits(change: dict[str, Any], problem: str) -> None:
    """Registrations of peers are kept in memory."""
    with pytest.raises(ValidationError, match=problem):
        Registered.model_validate({**REGISTERED, **change})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"success": 1}, "is neither true nor false"),
        ({"success": "true"}, "is neither true nor false"),
        ({"exit_code": False}, "is not an integer"),
        ({"exit_code": "0"}, "is not an integer"),
        ({"exit_code": 2**31}, "is not between -2147483648 and 2147483647"),
        ({"output": None}, "is not a string"),
        ({"metadata": "x"}, "is not an object"),
    ],
)
def test_values_are_not_converted(change: dict[str, Any], problem: str) -> None:
    """For example, `1` is not true."""
    with pytest.raises(ValidationError, match=problem):
        TaskResult.model_validate({**RESULT, **change})


def test_two_names_of_one_runtime() -> None:
    """`open_code` on the wire, `opencode` where a person typed it."""
    for name in ("opencode", "open_code"):
        assert Registered.model_validate({**REGISTERED, "runtime_type": name}).runtime_type == "open_code"


def test_a_reason_has_a_limit() -> None:
    """It is shown in lists of agents."""
    gone = {"agent_id": "worker-1", "node_id": "kitchen.local", "timestamp": "2026-02-08T12:00:00Z"}
    assert Unregistered.model_validate({**gone, "reason": "x" * 256}).reason == "x" * 256
    with pytest.raises(ValidationError, match="has more than 256 characters"):
        Unregistered.model_validate({**gone, "reason": "x" * 257})
