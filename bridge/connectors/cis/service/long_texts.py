"""Stores texts that are too long for an outgoing event as media, and restores the texts of incoming tasks."""

from dataclasses import replace
from hashlib import sha256
from typing import Final

from bridge.connectors.cis.protocol import large_output
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.large_output import StoredText
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.settings import NAME
from bridge.matrix.backend import MatrixBackend
from bridge.peers.peer import PeerProfile
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivery, DeliveryOutcome, Rejected, RetryLater
from bridge.tasks.task import Task
from federation.matrix.errors import MatrixError, PeerError

MAX_TEXT_BYTES: Final = 16 * 1024 * 1024
"""The largest text that is fetched."""


async def fit_event(backend: MatrixBackend, event: AnyEvent, user: str, profile: PeerProfile) -> AnyEvent | TooLarge:
    """Return the event small enough to be sent. `user`, a user of this node, uploads the texts that are too
    long."""
    long_texts = large_output.texts_to_store(event, profile)
    if isinstance(long_texts, TooLarge):
        return long_texts
    if not long_texts:
        return event
    await backend.ensure_user(user)
    stored = {}
    for text in long_texts:
        data = text.text.encode()
        info = await backend.upload(user, data, "text/plain; charset=utf-8", f"{text.name}.txt")
        stored[text.name] = StoredText(info.mxc, len(data), sha256(data).hexdigest())
    return large_output.shorten(event, stored)


async def restore_texts(backend: MatrixBackend, task: Task) -> Task | TaskError:
    """Return a task that was received as an event, with its full texts. Raises `PeerError` or `MatrixError`
    if a text cannot be fetched now."""
    stored = large_output.stored_in(task.request.metadata, task.request.key.node_id)
    if not stored:
        return task
    texts = {}
    for name, reference in stored.items():
        text = await _fetch(backend, reference)
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
            metadata={key: value for key, value in request.metadata.items() if key != large_output.KEY},
        ),
    )


async def _fetch(backend: MatrixBackend, stored: StoredText) -> str | TaskError:
    mismatch = TaskError(
        ErrorCode.INVALID_PAYLOAD,
        "A text of the task that was sent as a file does not match its size or hash, or is not text.",
        {"field": f"task.metadata.{large_output.KEY}"},
    )
    if stored.size > MAX_TEXT_BYTES:
        reason = f"A text of the task has {stored.size} bytes; at most {MAX_TEXT_BYTES} are allowed."
        return TaskError(ErrorCode.INVALID_PAYLOAD, reason)
    data = bytearray()
    async with backend.download(str(stored.url)) as media:
        async for chunk in media.chunks:
            data += chunk
            if len(data) > stored.size:
                return mismatch
    if len(data) != stored.size or sha256(data).hexdigest() != stored.sha256:
        return mismatch
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return mismatch
    return mismatch if "\0" in text else text


class TextRestoringDelivery:
    """Implements `bridge.tasks.ports.Delivery`: restores the texts of a task before another delivery delivers
    it."""

    def __init__(self, backend: MatrixBackend, delivery: Delivery) -> None:
        self._backend = backend
        self._delivery = delivery

    async def deliver(self, task: Task) -> DeliveryOutcome:
        if task.request.origin.protocol != NAME:
            return await self._delivery.deliver(task)
        try:
            restored = await restore_texts(self._backend, task)
        except (MatrixError, PeerError):
            return RetryLater("A text of the task could not be fetched from the node that sent it.")
        if isinstance(restored, TaskError):
            return Rejected(restored)
        return await self._delivery.deliver(restored)

    async def cancel(self, task: Task) -> bool:
        return await self._delivery.cancel(task)
