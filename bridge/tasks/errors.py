"""Why a task was not done: the five codes of agent federation 1.0.0, "Error types", and what to do then."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

EXIT_CODE: Final = -1
"""Of a task that failed with a code: the tool was not what failed. "`success:false, exit_code:-1`"."""


class ErrorCode(StrEnum):
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND"
    AGENT_BUSY = "AGENT_BUSY"
    TIMEOUT = "TIMEOUT"
    NODE_UNREACHABLE = "NODE_UNREACHABLE"
    INVALID_PAYLOAD = "INVALID_PAYLOAD"

    @property
    def advice(self) -> str:
        return _ADVICE[self]


_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.AGENT_NOT_FOUND: "Check the address, or wait until the agent is there.",
    ErrorCode.AGENT_BUSY: "Try again later, or ask another agent.",
    ErrorCode.TIMEOUT: "Ask for less at once, or allow more time.",
    ErrorCode.NODE_UNREACHABLE: "Check the connection to the agent's node.",
    ErrorCode.INVALID_PAYLOAD: "Check what was sent against the protocol's version.",
}


@dataclass(frozen=True, slots=True)
class TaskError:
    """`reason` is a sentence for whoever asked: without a secret, a path of this machine or a library's
    words. `metadata` is for programs."""

    code: ErrorCode
    reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
