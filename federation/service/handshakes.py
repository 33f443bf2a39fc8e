"""The conversations with rooms that this server is not in, carried out: questions become requests."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from federation.errors import PeerError
from federation.peer_errors import PeerMalformed
from federation.remote_membership import (
    Answer,
    AskTemplate,
    Conversation,
    Done,
    HandIn,
    NobodyHelped,
    Question,
)
from federation.request_target import RequestTarget, request_target
from federation.room_version import ROOM_VERSIONS
from federation.service.client import LARGE, SMALL, FederationClient

R = TypeVar("R")

FEDERATION: Final = "/_matrix/federation"
SEND_PATHS: Final[Mapping[str, str]] = {
    "join": f"{FEDERATION}/v2/send_join/{{roomId}}/{{eventId}}",
    "leave": f"{FEDERATION}/v2/send_leave/{{roomId}}/{{eventId}}",
    "knock": f"{FEDERATION}/v1/send_knock/{{roomId}}/{{eventId}}",
}
PATIENCE: Final = 300.0
"""Seconds for handing in a join: its answer is the whole state of a room."""


class Handshakes:
    def __init__(self, client: FederationClient) -> None:
        self._client = client

    async def hold(
        self, talk: Conversation[R], *, room_id: str, user: str, membership: str
    ) -> Done[R] | NobodyHelped:
        """Ask what the conversation asks until it is over."""
        answer: Answer | None = None
        while True:
            try:
                # Reading the state of a large room takes seconds, and everything else would wait.
                question = next(talk) if answer is None else await asyncio.to_thread(_send, talk, answer)
            except _Over as over:
                result: Done[R] | NobodyHelped = over.args[0]
                return result
            except StopIteration as end:  # nobody was to be asked
                ended: Done[R] | NobodyHelped = end.value
                return ended
            answer = await self._ask(question, room_id, user, membership)

    async def invite(
        self, server: str, room_id: str, event_id: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        target = request_target(
            f"{FEDERATION}/v2/invite/{{roomId}}/{{eventId}}", roomId=room_id, eventId=event_id
        )
        return await self._client.request("PUT", server, target, body)

    async def directory(self, server: str, alias: str) -> tuple[str, tuple[str, ...]]:
        """The room that an alias names, and the servers that are in it. Raises `PeerError`."""
        target = request_target(f"{FEDERATION}/v1/query/directory", query=[("room_alias", alias)])
        answer = await self._client.request("GET", server, target)
        room_id, servers = answer.get("room_id"), answer.get("servers")
        if not isinstance(room_id, str) or not isinstance(servers, list):
            raise PeerMalformed(server, "answered with something that names no room")
        return room_id, tuple(name for name in servers if isinstance(name, str))

    async def _ask(self, question: Question, room_id: str, user: str, membership: str) -> Answer:
        try:
            match question:
                case AskTemplate(server):
                    return await self._client.request("GET", server, _make(room_id, user, membership))
                case HandIn(server, event):
                    large = membership == "join"
                    return await self._client.request(
                        "PUT",
                        server,
                        request_target(SEND_PATHS[membership], roomId=room_id, eventId=event.event_id),
                        event.event,
                        timeout=PATIENCE if large else 60.0,
                        limit=LARGE if large else SMALL,
                    )
        except PeerError as error:
            return error


class _Over(Exception):
    """`StopIteration` cannot leave a thread."""


def _send(talk: Conversation[R], answer: Answer) -> Question:
    try:
        return talk.send(answer)
    except StopIteration as end:
        raise _Over(end.value) from None


def _make(room_id: str, user: str, membership: str) -> RequestTarget:
    # make_leave has no `ver`: who was invited knows the version.
    versions = () if membership == "leave" else tuple(("ver", version) for version in ROOM_VERSIONS)
    return request_target(
        f"{FEDERATION}/v1/make_{membership}/{{roomId}}/{{userId}}",
        roomId=room_id,
        userId=user,
        query=versions,
    )
