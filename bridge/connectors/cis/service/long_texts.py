"""Texts that are too long for an event: stored as media when they go out, fetched when they have come.

Brings tasks that have come from other nodes to agents of this one, with their texts as they were.
"""

from dataclasses import replace
from hashlib import sha256
from typing import Final

from bridge.connectors.cis.protocol import large_output
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.large_output import Stored
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.settings import NAME
from bridge.matrix.backend import MatrixBackend
from bridge.peers.peer import PeerProfile
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivery, DeliveryOutcome, Rejected, RetryLater
from bridge.tasks.task import Task
from federation.matrix.errors import MatrixError, PeerError

MOST_FETCHED: Final = 16 * 1024 * 1024
"""Bytes of one text."""


async def fitting(
    side: MatrixBackend, event: AnyEvent, user: str, profile: PeerProfile
) -> AnyEvent | TooLarge:
    """The event as it can be sent. `user` is of this node, and stores what is too long."""
    long = large_output.too_long(event, profile)
    if isinstance(long, TooLarge):
        return long
    if not long:
        return event
    await side.ensure_user(user)
    stored = {}
    for one in long:
        data = one.text.encode()
        info = await side.upload(user, data, "text/plain; charset=utf-8", f"{one.name}.txt")
        stored[one.name] = Stored(info.mxc, len(data), sha256(data).hexdigest())
    return large_output.shortened(event, stored)


async def whole(side: MatrixBackend, task: Task) -> Task | TaskError:
    """A task that has come as an event, with its texts as they were written. `PeerError` and `MatrixError`
    are for whoever tries again."""
    stored = large_output.stored_in(task.request.metadata, task.request.key.node_id)
    if not stored:
        return task
    texts = {}
    for name, one in stored.items():
        text = await _fetch(side, one)
        if isinstance(text, TaskError):
            return text
        texts[name] = text
    request = task.request
    return replace(
        task,
        request=replace(
            request,
            prompt=texts.get("prompt", request.prompt),
            context=texts.get("context", request.context),
            system_prompt=texts.get("system_prompt", request.system_prompt),
            metadata={key: said for key, said in request.metadata.items() if key != large_output.KEY},
        ),
    )


async def _fetch(side: MatrixBackend, stored: Stored) -> str | TaskError:
    wrong = TaskError(
        ErrorCode.INVALID_PAYLOAD,
        "A text of the task that was sent as a file is not what it was said to be.",
        {"field": f"task.metadata.{large_output.KEY}"},
    )
    if stored.size > MOST_FETCHED:
        reason = f"A text of the task has {stored.size} bytes, and {MOST_FETCHED} are allowed."
        return TaskError(ErrorCode.INVALID_PAYLOAD, reason)
    data = bytearray()
    async with side.download(str(stored.url)) as media:
        async for chunk in media.chunks:
            data += chunk
            if len(data) > stored.size:
                return wrong
    if len(data) != stored.size or sha256(data).hexdigest() != stored.sha256:
        return wrong
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return wrong
    return wrong if "\0" in text else text


class WholeTexts:
    """Satisfies `bridge.tasks.ports.Delivery`, in front of another one."""

    def __init__(self, side: MatrixBackend, delivery: Delivery) -> None:
        self._side = side
        self._delivery = delivery

    async def deliver(self, task: Task) -> DeliveryOutcome:
        if task.request.origin.protocol != NAME:
            return await self._delivery.deliver(task)
        try:
            read = await whole(self._side, task)
        except (MatrixError, PeerError):
            return RetryLater("A text of the task could not be fetched from the node that has sent it.")
        if isinstance(read, TaskError):
            return Rejected(read)
        return await self._delivery.deliver(read)

    async def cancel(self, task: Task) -> bool:
        return await self._delivery.cancel(task)
