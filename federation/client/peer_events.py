"""Fetches events and states of rooms from other servers. Server-server API, "Retrieving events" and
"Backfilling"."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.client.client import LARGE, FederationClient
from federation.client.errors import PeerMalformed
from federation.client.requests import request_target
from federation.events import EventId

_V1: Final = "/_matrix/federation/v1"


@dataclass(frozen=True, slots=True)
class StateIds:
    pdu_ids: tuple[EventId, ...]
    auth_chain_ids: tuple[EventId, ...]


@dataclass(frozen=True, slots=True)
class RemoteState:
    pdus: Sequence[Any] = field(repr=False)
    auth_chain: Sequence[Any] = field(repr=False)


class FederationEventClient:
    """Requests events and states from other servers. Every method raises `PeerError`. Only the format of the
    response has been checked, not the events in it."""

    def __init__(self, client: FederationClient) -> None:
        self._client = client

    async def missing_events(
        self,
        peer: str,
        room_id: str,
        *,
        earliest: Collection[EventId],
        latest: Collection[EventId],
        limit: int,
        min_depth: int,
    ) -> Sequence[Any]:
        target = request_target(f"{_V1}/get_missing_events/{{roomId}}", roomId=room_id)
        body = {
            "earliest_events": list(earliest),
            "latest_events": list(latest),
            "limit": limit,
            "min_depth": min_depth,
        }
        answer = await self._client.request("POST", peer, target, body, limit=LARGE)
        return _list(peer, answer, "events")

    async def state_ids(self, peer: str, room_id: str, event_id: EventId) -> StateIds:
        target = request_target(f"{_V1}/state_ids/{{roomId}}", roomId=room_id, query=[("event_id", event_id)])
        answer = await self._client.request("GET", peer, target, limit=LARGE)
        return StateIds(_ids(peer, answer, "pdu_ids"), _ids(peer, answer, "auth_chain_ids"))

    async def state(self, peer: str, room_id: str, event_id: EventId) -> RemoteState:
        target = request_target(f"{_V1}/state/{{roomId}}", roomId=room_id, query=[("event_id", event_id)])
        answer = await self._client.request("GET", peer, target, limit=LARGE)
        return RemoteState(_list(peer, answer, "pdus"), _list(peer, answer, "auth_chain"))

    async def event(self, peer: str, event_id: EventId) -> Any:
        target = request_target(f"{_V1}/event/{{eventId}}", eventId=event_id)
        pdus = _list(peer, await self._client.request("GET", peer, target), "pdus")
        if len(pdus) != 1:
            raise PeerMalformed(peer, f"answered with {len(pdus)} events to a request for one")
        return pdus[0]

    async def event_auth(self, peer: str, room_id: str, event_id: EventId) -> Sequence[Any]:
        target = request_target(f"{_V1}/event_auth/{{roomId}}/{{eventId}}", roomId=room_id, eventId=event_id)
        return _list(peer, await self._client.request("GET", peer, target, limit=LARGE), "auth_chain")

    async def backfill(self, peer: str, room_id: str, event_ids: Collection[EventId], limit: int) -> Sequence[Any]:
        query = [*(("v", event_id) for event_id in event_ids), ("limit", str(limit))]
        target = request_target(f"{_V1}/backfill/{{roomId}}", roomId=room_id, query=query)
        return _list(peer, await self._client.request("GET", peer, target, limit=LARGE), "pdus")

    async def sign(self, server: str, event: Mapping[str, Any]) -> Any:
        """Request a policy server's signatures, which are returned unchecked. `PeerRefused` if it refuses to
        sign."""
        target = request_target("/_matrix/policy/v1/sign")
        return await self._client.request("POST", server, target, dict(event))


def _list(peer: str, answer: dict[str, Any], name: str) -> list[Any]:
    value = answer.get(name)
    if not isinstance(value, list):
        raise PeerMalformed(peer, f"answered without {name}")
    return value


def _ids(peer: str, answer: dict[str, Any], name: str) -> tuple[EventId, ...]:
    ids = _list(peer, answer, name)
    if not all(isinstance(one, str) and "\0" not in one for one in ids):
        raise PeerMalformed(peer, f"answered with {name} that are not ids")
    return tuple(ids)
