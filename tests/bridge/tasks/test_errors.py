"""The five codes."""

import pytest

from bridge.tasks.errors import ErrorCode


def test_the_codes_are_those_of_the_specification() -> None:
    """Agent federation 1.0.0, "Error types"."""
    assert [code.value for code in ErrorCode] == [
        "AGENT_NOT_FOUND",
        "AGENT_BUSY",
        "TIMEOUT",
        "NODE_UNREACHABLE",
        "INVALID_PAYLOAD",
    ]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_each_says_what_to_do(code: ErrorCode) -> None:
    """A person reads it behind the reason: one sentence."""
    assert code.advice.endswith(".")
    assert sum(other.advice == code.advice for other in ErrorCode) == 1
