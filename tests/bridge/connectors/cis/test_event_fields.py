"""What the fields of agent events may hold."""

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.connectors.cis.event_fields import MOST_CAPABILITIES
from bridge.connectors.cis.events import Registered, TaskResult

REGISTERED: dict[str, Any] = {
    "agent_id": "worker-1", "node_id": "kitchen.local", "runtime_type": "kimi", "capabilities": ["coding"],
    "timestamp": "2026-02-08T12:00:00Z",
}  # fmt: skip
RESULT: dict[str, Any] = {"success": True, "output": "", "exit_code": 0}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"runtime_type": ""}, "does not have 1 to 255 bytes"),
        ({"runtime_type": None}, "is not a string"),
        ({"capabilities": "coding"}, "is not a list"),
        ({"capabilities": {"coding": True}}, "is not a list"),
        ({"capabilities": ["coding", 1]}, "names one that is not a string"),
        ({"capabilities": [""]}, "names one that does not have 1 to 255 bytes"),
        ({"capabilities": ["ä" * 128]}, "names one that does not have 1 to 255 bytes"),
        ({"capabilities": ["a"] * (MOST_CAPABILITIES + 1)}, "names more than 100"),
    ],
)
def test_a_registration_has_limits(change: dict[str, Any], problem: str) -> None:
    """What a peer says of its agents is kept in memory."""
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
def test_a_result_is_strict(change: dict[str, Any], problem: str) -> None:
    """Nothing is turned into something else: `1` is not true."""
    with pytest.raises(ValidationError, match=problem):
        TaskResult.model_validate({**RESULT, **change})


def test_two_names_of_one_runtime() -> None:
    """`open_code` on the wire, `opencode` where a person typed it."""
    for name in ("opencode", "open_code"):
        assert Registered.model_validate({**REGISTERED, "runtime_type": name}).runtime_type == "open_code"
