"""What a task came to. Agent federation 1.0.0, "Task response": success, output, exit code, metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bridge.tasks.errors import EXIT_CODE, ErrorCode, TaskError
from bridge.tasks.request import encoded

MOST_EXIT_CODE: Final = 2**31 - 1
MOST_METADATA_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Answer:
    """`error_code` is also in the metadata, where other nodes look for it. A tool that failed has none."""

    success: bool
    output: str
    exit_code: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error_code: ErrorCode | None = None


def failure(error: TaskError) -> Answer:
    """ "`success:false, exit_code:-1`, `metadata.error_code`"."""
    metadata = {**error.metadata, "error_code": error.code.value}
    return Answer(False, error.reason, EXIT_CODE, metadata, error.code)


def cancelled(by: str, reason: str | None) -> Answer:
    """None of the five codes: nothing went wrong."""
    output = f"Cancelled by {by}{f': {reason}' if reason else '.'}"
    return Answer(False, output, EXIT_CODE, {"cancelled": True})


def kept(answer: Answer, most_bytes: int) -> Answer:
    """As it can be stored and sent: what is too long is cut, and says so. Most often it is as it can be."""
    if _is_short(answer, most_bytes):
        return answer
    output = answer.output.encode("utf-8", "replace")
    metadata = dict(answer.metadata)
    if len(output) > most_bytes:
        metadata |= {"output_truncated": True, "output_bytes": len(output)}
        output = output[:most_bytes]
    as_json = encoded(metadata)
    if as_json is None or len(as_json) > MOST_METADATA_BYTES:
        metadata = {name: metadata[name] for name in _OURS if name in metadata}
        metadata["metadata_dropped"] = True
    if answer.error_code is not None:
        metadata["error_code"] = answer.error_code.value
    return replace(
        answer,
        output=output.decode("utf-8", "ignore"),
        exit_code=max(-MOST_EXIT_CODE, min(answer.exit_code, MOST_EXIT_CODE)),
        metadata=metadata,
    )


_OURS: Final = ("output_truncated", "output_bytes")


def _is_short(answer: Answer, most_bytes: int) -> bool:
    """Whether nothing has to be changed, so far as it can be told at once."""
    output, metadata = answer.output, answer.metadata
    return (
        answer.error_code is None
        and not metadata
        and output.isascii()
        and len(output) <= most_bytes
        and -MOST_EXIT_CODE <= answer.exit_code <= MOST_EXIT_CODE
    )
