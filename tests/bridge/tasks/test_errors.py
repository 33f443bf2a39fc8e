"""The five error codes."""

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
def test_each_code_has_advice(code: ErrorCode) -> None:
    """One sentence, which people read after the reason."""
    assert code.advice.endswith(".")
    assert sum(other.advice == code.advice for other in ErrorCode) == 1
