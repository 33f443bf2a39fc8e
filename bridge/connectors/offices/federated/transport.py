"""Sends requests to members of other nodes, and answers to their requests, through the room of the office."""

import secrets
from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from bridge.connectors.offices.federated.encryption import NodeCipher
from bridge.connectors.offices.federated.messages import (
    MAX_BYTES,
    MAX_INLINE,
    Body,
    Cancel,
    InFile,
    Inline,
    OfficeEvent,
    Request,
    Response,
    Update,
    content_of,
)
from bridge.connectors.offices.federated.shared_room import RemoteMember
from bridge.connectors.offices.protocol.errors import INTERNAL, flat_error
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.calls import AnswerCallback, StopWaiting
from federation.matrix.errors import MatrixError, PeerError

SEALED_TYPE: Final = "application/octet-stream"


@dataclass(eq=False, slots=True)
class _PendingRequest:
    user: str
    sender: str
    request: RelayRequest
    on_answer: AnswerCallback


class RemoteCallTransport:
    """Sends requests of local members, encrypted for the node of their target, and matches the responses;
    sends the answers of local members to requests of other nodes."""

    def __init__(self, parts: RoomParts, cipher: NodeCipher) -> None:
        self._backend = parts.backend
        self._report = parts.report
        self._cipher = cipher
        self._pending: dict[str, _PendingRequest] = {}

    # -- requests of local members --

    async def call(
        self, room_id: str, sender: str, target: RemoteMember, request: RelayRequest, on_answer: AnswerCallback
    ) -> StopWaiting:
        """`on_answer` receives the response, or an error at once if the request cannot be sent. Call the
        returned function when the response is no longer awaited."""
        id_ = secrets.token_hex(16)
        self._pending[id_] = _PendingRequest(target.user, sender, request, on_answer)
        try:
            if not sender:
                raise ValueError("the caller's name cannot be part of a Matrix user id")
            body = await self._seal(sender, target.public_key, id_, dict(request.payload))
            await self._send(room_id, sender, Request(id_, target.user, request.event.name, body), id_)
        except (MatrixError, ValueError) as refused:
            self._report(f"Failed to send a request to {target.user}.", refused)
            on_answer(
                flat_error(INTERNAL, f"The request could not be sent to the node of the Computer '{target.name}'")
            )
        return lambda: self._stop_waiting(id_)

    async def cancel(self, room_id: str, sender: str, request: RelayRequest) -> None:
        for id_, pending in tuple(self._pending.items()):
            if pending.request is request:
                await self._send(room_id, sender, Cancel(id_, pending.user), f"{id_}/stop")

    async def send_update(self, room_id: str, sender: str, notice: str) -> None:
        await self._send(room_id, sender, Update(notice), secrets.token_hex(16))

    def is_pending(self, response: Response) -> bool:
        return response.id in self._pending

    async def handle_response(self, sender: str, response: Response) -> None:
        """Accept the first response, if it comes from the request's target. Others are ignored."""
        pending = self._pending.get(response.id)
        if pending is None or pending.user != sender or pending.sender != response.to:
            return
        try:
            answer = await self.open(response.body, response.id, sender)
        except ValueError as wrong:
            self._report(f"The response of {sender} cannot be read.", wrong)
            answer = flat_error(INTERNAL, "The Computer's answer could not be read")
        pending.on_answer(answer)

    # -- requests of other nodes --

    async def answer(
        self, room_id: str, request: Request, request_event: str, requester: RemoteMember, answer: Any
    ) -> None:
        try:
            body = await self._seal(request.to, requester.public_key, request.id, answer)
        except ValueError as wrong:
            self._report(f"The answer to {requester.user} cannot be encrypted.", wrong)
            error = flat_error(INTERNAL, "The Computer's answer cannot be sent to another node")
            body = await self._seal(request.to, requester.public_key, request.id, error)
        response = Response(request.id, requester.user, body)
        await self._send(room_id, request.to, response, f"{request.id}/answer", request_event)

    async def open(self, body: Body, id_: str, sender: str) -> Any:
        """Return the decrypted content. Raises `ValueError`."""
        if isinstance(body, Inline):
            try:
                sealed = b64decode(body.sealed, validate=True)
            except Error as wrong:
                raise ValueError(f"It is not valid base64: {wrong}") from None
        else:
            sealed = await self._fetch(body)
        return self._cipher.open(sealed, id_, sender)

    # -- internals --

    def _stop_waiting(self, id_: str) -> None:
        self._pending.pop(id_, None)

    async def _seal(self, sender: str, public_key: str, id_: str, content: Any) -> Body:
        sealed = self._cipher.seal(public_key, id_, sender, content)
        if len(sealed) > MAX_BYTES:
            raise ValueError(f"it has {len(sealed)} bytes")
        if len(sealed) * 4 <= MAX_INLINE * 3:
            return Inline(b64encode(sealed).decode())
        info = await self._backend.upload(sender, sealed, SEALED_TYPE)
        return InFile(str(info.mxc), sha256(sealed).hexdigest(), len(sealed))

    async def _fetch(self, file: InFile) -> bytes:
        try:
            async with self._backend.download(file.mxc) as opened:
                data = bytearray()
                async for chunk in opened.chunks:
                    data += chunk
                    if len(data) > file.size:
                        break
        except (MatrixError, PeerError) as refused:
            raise ValueError(f"Its file cannot be downloaded: {refused}") from None
        if sha256(data).hexdigest() != file.sha256:
            raise ValueError("The hash of its file does not match.")
        return bytes(data)

    async def _send(
        self, room_id: str, sender: str, event: OfficeEvent, name: str, request_event: str | None = None
    ) -> None:
        type_, content = content_of(event, request_event=request_event)
        await self._backend.send(room_id, sender, type_, content, transaction_id=f"office/{name}")
