"""A task request, independent of the protocol by which it arrived.

On the command line a task is named by its request id, an @ and the id of the requesting node. A request id
may contain an @, a node id never does, so that the last @ separates them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson

from bridge.agents.address import AT, AgentAddress, is_unicode, node_id_problem
from bridge.tasks.errors import ErrorCode, TaskError
from federation.matrix.identifiers import MAX_BYTES, has_valid_length

DEFAULT_TIMEOUT_MS: Final = 300_000
"""Agent federation 1.0.0: "`timeout_secs` is optional, 300 seconds by default"."""
MAX_REFERENCE_BYTES: Final = 8_192


class TaskKey(NamedTuple):
    """The key of a task: "a repeated request id gets the stored answer". Each node makes its own request ids,
    so the id of the requesting node is part of the key."""

    node_id: str
    request_id: str

    def __str__(self) -> str:
        return f"{self.request_id} of {self.node_id}"


@dataclass(frozen=True, slots=True)
class Origin:
    """The protocol by which a request arrived, and what the protocol's connector needs to send the answer:
    JSON that no other code reads."""

    protocol: str
    reference: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskRequest:
    key: TaskKey
    task_id: str
    from_address: AgentAddress
    to_address: AgentAddress
    prompt: str
    origin: Origin
    context: str = ""
    system_prompt: str | None = None
    model: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int | None = None

    def content(self) -> dict[str, Any]:
        """The part of the request that the agent reads."""
        return {
            "prompt": self.prompt,
            "context": self.context,
            "system_prompt": self.system_prompt,
            "model": self.model,
            "metadata": self.metadata,
        }

    def resubmitted(self, origin: Origin) -> "TaskRequest":
        """The same request with a new origin: the answer goes to the latest one."""
        return replace(self, origin=origin)


def check_request(request: TaskRequest, max_bytes: int) -> TaskError | None:
    """Return an error that names the invalid field, or None."""
    names = {
        "request_id": request.key.request_id,
        "task_id": request.task_id,
        "node_id": request.key.node_id,
        "protocol": request.origin.protocol,
    }
    for name, text in names.items():
        if text.isascii() and 0 < len(text) <= MAX_BYTES and "\0" not in text:
            continue
        if not text or not has_valid_length(text) or "\0" in text or not is_unicode(text):
            return invalid(
                name, f"{name} must not be empty, must have at most {MAX_BYTES} bytes, and must not contain NUL."
            )
    if request.timeout_ms is not None and request.timeout_ms <= 0:
        return invalid("timeout_secs", "timeout_secs must be more than 0.")
    content = encoded(request.content())
    if content is None:
        return invalid("task", "The task cannot be stored as JSON.")
    if len(content) > max_bytes:
        return invalid("task", f"The task has {len(content)} bytes, but at most {max_bytes} are allowed.")
    reference = encoded(request.origin.reference)
    if reference is None or len(reference) > MAX_REFERENCE_BYTES:
        return invalid("reference", "The reference for the answer is too long to be stored.")
    return None


def invalid(field_name: str, reason: str) -> TaskError:
    """ "Wrong payloads get `INVALID_PAYLOAD` with the field named"."""
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"field": field_name})


def encoded(value: Any) -> bytes | None:
    """JSON with sorted keys, so that equal values have equal bytes. None for a value that cannot be encoded:
    nested too deeply, numbers beyond 64 bits, unpaired surrogates."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson.JSONEncodeError is a TypeError
        return None


def key_text(key: TaskKey) -> str:
    return f"{key.request_id}{AT}{key.node_id}"


def read_key(text: str) -> TaskKey | None:
    """Parse a task's name; None if it can only be a request id or a task id without a node."""
    request_id, at, node_id = text.rpartition(AT)
    if not at or not request_id or node_id_problem(node_id) is not None:
        return None
    return TaskKey(node_id, request_id)
