"""Carries requests to members of other nodes, and their answers, through the room of their office."""

import secrets
from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from bridge.connectors.offices.federated.messages import (
    MOST_BYTES,
    MOST_INLINE,
    Body,
    Cancel,
    InFile,
    Inline,
    Request,
    Response,
    Travelling,
    Update,
    content_of,
)
from bridge.connectors.offices.federated.sealing import Sealing
from bridge.connectors.offices.federated.shared_room import Present
from bridge.connectors.offices.protocol.errors import INTERNAL, flat
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.calls import Answered, Forget
from federation.matrix.errors import MatrixError, PeerError

SEALED: Final = "application/octet-stream"


@dataclass(eq=False, slots=True)
class _Asked:
    user: str
    speaker: str
    relay: Relay
    answered: Answered


class Carrying:
    def __init__(self, parts: RoomParts, sealing: Sealing) -> None:
        self._side = parts.side
        self._report = parts.report
        self._sealing = sealing
        self._asked: dict[str, _Asked] = {}

    # -- as who asks --

    async def ask(
        self, room_id: str, speaker: str, there: Present, relay: Relay, answered: Answered
    ) -> Forget:
        """What cannot be asked is answered at once."""
        id_ = secrets.token_hex(16)
        self._asked[id_] = _Asked(there.user, speaker, relay, answered)
        try:
            if not speaker:
                raise ValueError("the caller has no name of its own on other nodes")
            body = await self._seal(speaker, there.box, id_, dict(relay.said))
            await self._say(room_id, speaker, Request(id_, there.user, relay.event.name, body), id_)
        except (MatrixError, ValueError) as refused:
            self._report(f"{there.user} could not be asked.", refused)
            answered(flat(INTERNAL, f"The Computer '{there.name}' on its node could not be asked"))
        return lambda: self._forget(id_)

    async def stop(self, room_id: str, speaker: str, relay: Relay) -> None:
        for id_, asked in tuple(self._asked.items()):
            if asked.relay is relay:
                await self._say(room_id, speaker, Cancel(id_, asked.user), f"{id_}/stop")

    async def tell(self, room_id: str, speaker: str, notice: str) -> None:
        await self._say(room_id, speaker, Update(notice), secrets.token_hex(16))

    def has_asked(self, response: Response) -> bool:
        return response.id in self._asked

    async def hear(self, sender: str, response: Response) -> None:
        """The first answer counts, by whoever was asked."""
        asked = self._asked.get(response.id)
        if asked is None or asked.user != sender or asked.speaker != response.to:
            return
        try:
            answer = await self.open(response.body, response.id, sender)
        except ValueError as wrong:
            self._report(f"What {sender} has answered cannot be read.", wrong)
            answer = flat(INTERNAL, "The Computer's answer could not be read")
        asked.answered(answer)

    # -- as who answers --

    async def answer(
        self, room_id: str, request: Request, request_event: str, asker: Present, answer: Any
    ) -> None:
        try:
            body = await self._seal(request.to, asker.box, request.id, answer)
        except ValueError as wrong:
            self._report(f"The answer to {asker.user} cannot be carried.", wrong)
            too_large = flat(INTERNAL, "The Computer's answer cannot be carried to another node")
            body = await self._seal(request.to, asker.box, request.id, too_large)
        response = Response(request.id, asker.user, body)
        await self._say(room_id, request.to, response, f"{request.id}/answer", request_event)

    async def open(self, body: Body, id_: str, sender: str) -> Any:
        """Raises `ValueError`."""
        if isinstance(body, Inline):
            try:
                sealed = b64decode(body.sealed, validate=True)
            except Error as wrong:
                raise ValueError(f"It is no base64: {wrong}") from None
        else:
            sealed = await self._fetch(body)
        return self._sealing.open(sealed, id_, sender)

    # -- inside --

    def _forget(self, id_: str) -> None:
        self._asked.pop(id_, None)

    async def _seal(self, speaker: str, box: str, id_: str, said: Any) -> Body:
        sealed = self._sealing.seal(box, id_, speaker, said)
        if len(sealed) > MOST_BYTES:
            raise ValueError(f"it has {len(sealed)} bytes")
        if len(sealed) * 4 <= MOST_INLINE * 3:
            return Inline(b64encode(sealed).decode())
        info = await self._side.upload(speaker, sealed, SEALED)
        return InFile(str(info.mxc), sha256(sealed).hexdigest(), len(sealed))

    async def _fetch(self, file: InFile) -> bytes:
        try:
            async with self._side.download(file.mxc) as opened:
                data = bytearray()
                async for chunk in opened.chunks:
                    data += chunk
                    if len(data) > file.size:
                        break
        except (MatrixError, PeerError) as refused:
            raise ValueError(f"Its file is not there: {refused}") from None
        if sha256(data).hexdigest() != file.sha256:
            raise ValueError("Its file is another one.")
        return bytes(data)

    async def _say(
        self, room_id: str, speaker: str, said: Travelling, name: str, request_event: str | None = None
    ) -> None:
        type_, content = content_of(said, request_event=request_event)
        await self._side.send(room_id, speaker, type_, content, transaction_id=f"office/{name}")
