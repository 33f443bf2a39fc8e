"""What an agent is asked to do, whatever the protocol it was asked in.

What a task is called on the command line: the id of its request, and the node that asked behind an @.

The id of a request may hold an @ itself, the id of a node never does: the last one is what counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson

from bridge.agents.address import AT, AgentAddress, is_unicode, wrong_node_id
from bridge.tasks.errors import ErrorCode, TaskError
from federation.matrix.identifiers import MAX_BYTES, has_valid_length

DEFAULT_TIMEOUT_MS: Final = 300_000
"""Agent federation 1.0.0: "`timeout_secs` is optional, 300 seconds by default"."""
MOST_REFERENCE_BYTES: Final = 8_192


class TaskKey(NamedTuple):
    """ "a repeated request id gets the stored answer": of the same node, that is, since each node makes its
    own ids."""

    node_id: str
    request_id: str

    def __str__(self) -> str:
        return f"{self.request_id} of {self.node_id}"


@dataclass(frozen=True, slots=True)
class Origin:
    """By which protocol it came, and what that protocol's connector needs to answer it: JSON that nobody else
    looks into."""

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
        """What the agent gets to read."""
        return {
            "prompt": self.prompt,
            "context": self.context,
            "system_prompt": self.system_prompt,
            "model": self.model,
            "metadata": self.metadata,
        }

    def asked_again(self, origin: Origin) -> "TaskRequest":
        """The same, to be answered to whoever asked last."""
        return replace(self, origin=origin)


def check(request: TaskRequest, most_bytes: int) -> TaskError | None:
    """What is wrong with it, with the name of the field; None if nothing is."""
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
            return invalid(name, f"{name} is not empty, has at most {MAX_BYTES} bytes, and no NUL.")
    if request.timeout_ms is not None and request.timeout_ms <= 0:
        return invalid("timeout_secs", "timeout_secs is more than 0.")
    content = encoded(request.content())
    if content is None:
        return invalid("task", "The task is no JSON that can be kept.")
    if len(content) > most_bytes:
        return invalid("task", f"The task has {len(content)} bytes, and {most_bytes} are allowed.")
    reference = encoded(request.origin.reference)
    if reference is None or len(reference) > MOST_REFERENCE_BYTES:
        return invalid("reference", "Where to answer the task takes too much to be kept.")
    return None


def invalid(field_name: str, reason: str) -> TaskError:
    """ "Wrong payloads get `INVALID_PAYLOAD` with the field named"."""
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"field": field_name})


def encoded(value: Any) -> bytes | None:
    """JSON with its keys sorted, so that equal values are equal bytes. None for what has none: too deep,
    numbers beyond 64 bits, halves of surrogates."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson.JSONEncodeError is a TypeError
        return None


def key_text(key: TaskKey) -> str:
    return f"{key.request_id}{AT}{key.node_id}"


def read_key(text: str) -> TaskKey | None:
    """None for what can only be the id of a request, or of a task, without its node."""
    request_id, at, node_id = text.rpartition(AT)
    if not at or not request_id or wrong_node_id(node_id) is not None:
        return None
    return TaskKey(node_id, request_id)
