"""A person's words as a task."""

from hashlib import sha256
from typing import Any

from bridge.address import AgentAddress
from bridge.people.settings import NAME
from bridge.task_request import Origin, TaskKey, TaskRequest


def request_for(
    agent: AgentAddress,
    prompt: str,
    *,
    event_id: str,
    room_id: str,
    user: str,
    requester: AgentAddress,
    context: str = "",
) -> TaskRequest:
    """`event_id` is what was said: one message is one task for each agent, however often it is read."""
    digest = sha256(f"{event_id}\n{agent}".encode("utf-8", "surrogatepass")).hexdigest()
    metadata: dict[str, Any] = {"asked_by": user}
    return TaskRequest(
        key=TaskKey(requester.node_id, f"people-{digest[:32]}"),
        task_id=f"t-{digest[:10]}",
        from_address=requester,
        to_address=agent,
        prompt=prompt,
        origin=Origin(NAME, {"room_id": room_id, "event_id": event_id, "user_id": user}),
        context=context,
        metadata=metadata,
    )
