"""The answer to a task. Agent federation 1.0.0, "Task response": success, output, exit code, metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bridge.tasks.errors import EXIT_CODE, ErrorCode, TaskError
from bridge.tasks.request import encoded

MAX_EXIT_CODE: Final = 2**31 - 1
MAX_METADATA_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Answer:
    """`error_code` is also in the metadata, where other nodes look for it. It is None if the tool itself
    failed."""

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
    """The answer to a cancelled task. It has none of the five error codes, because nothing went wrong."""
    output = f"Cancelled by {by}{f': {reason}' if reason else '.'}"
    return Answer(False, output, EXIT_CODE, {"cancelled": True})


def truncated(answer: Answer, max_bytes: int) -> Answer:
    """The answer with what is too long cut off, so that it can be stored and sent. The metadata says what was
    cut."""
    if _needs_no_change(answer, max_bytes):
        return answer
    output = answer.output.encode("utf-8", "replace")
    metadata = dict(answer.metadata)
    if len(output) > max_bytes:
        metadata |= {"output_truncated": True, "output_bytes": len(output)}
        output = output[:max_bytes]
    as_json = encoded(metadata)
    if as_json is None or len(as_json) > MAX_METADATA_BYTES:
        metadata = {name: metadata[name] for name in _TRUNCATION_KEYS if name in metadata}
        metadata["metadata_dropped"] = True
    if answer.error_code is not None:
        metadata["error_code"] = answer.error_code.value
    return replace(
        answer,
        output=output.decode("utf-8", "ignore"),
        exit_code=max(-MAX_EXIT_CODE, min(answer.exit_code, MAX_EXIT_CODE)),
        metadata=metadata,
    )


_TRUNCATION_KEYS: Final = ("output_truncated", "output_bytes")


def _needs_no_change(answer: Answer, max_bytes: int) -> bool:
    """Whether the answer certainly needs no change. This covers most answers cheaply."""
    output, metadata = answer.output, answer.metadata
    return (
        answer.error_code is None
        and not metadata
        and output.isascii()
        and len(output) <= max_bytes
        and -MAX_EXIT_CODE <= answer.exit_code <= MAX_EXIT_CODE
    )
