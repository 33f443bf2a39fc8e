"""The five error codes of agent federation 1.0.0, "Error types", with advice for the requester."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

EXIT_CODE: Final = -1
"""The exit code of a task that failed with an error code: no tool has ended. "`success:false,
exit_code:-1`"."""


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
    ErrorCode.AGENT_NOT_FOUND: "Check the address, or wait until the agent is online.",
    ErrorCode.AGENT_BUSY: "Try again later, or choose another agent.",
    ErrorCode.TIMEOUT: "Request less work at once, or allow more time.",
    ErrorCode.NODE_UNREACHABLE: "Check the connection to the agent's node.",
    ErrorCode.INVALID_PAYLOAD: "Check the request against the protocol's version.",
}


@dataclass(frozen=True, slots=True)
class TaskError:
    """`reason` is a sentence for the requester. It contains no secret, no path of this machine and no text of
    a library. `metadata` is for programs."""

    code: ErrorCode
    reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
