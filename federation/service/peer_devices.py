"""Asks other servers for the devices and keys of their users. Server-server API, "Device Management" and
"End-to-End Encryption"."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from federation import device_answers
from federation.device_answers import DeviceKeys, NoAnswer, UserDevices
from federation.identifiers import domain
from federation.peer_errors import PeerMalformed
from federation.request_target import RequestTarget, request_target
from federation.service.client import MIB

T = TypeVar("T")

LARGEST_ANSWER: Final = 10 * MIB
"""Bytes: the devices of some thousand users."""

_V1: Final = "/_matrix/federation/v1"


class Client(Protocol):
    """As much of `federation.service.client.FederationClient` as is used here."""

    async def request(
        self,
        method: str,
        destination: str,
        target: RequestTarget,
        content: Any = None,
        *,
        limit: int = ...,
    ) -> dict[str, Any]: ...


class PeerDevices:
    """Each raises `PeerError`; what is returned has its form, and no signature in it has been checked."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def devices(self, user_id: str) -> UserDevices:
        """All devices of a user of another server."""
        peer = domain(user_id)
        assert peer is not None, "a user id names its server"
        target = request_target(f"{_V1}/user/devices/{{userId}}", userId=user_id)
        answer = await self._client.request("GET", peer, target, limit=LARGEST_ANSWER)
        return _good(peer, device_answers.user_devices(answer, user_id))

    async def keys(self, peer: str, asked: Mapping[str, Sequence[str]]) -> DeviceKeys:
        """The identity keys of devices of that server's users, by user; no device ids: of all devices."""
        question = {"device_keys": {user_id: list(devices) for user_id, devices in asked.items()}}
        target = request_target(f"{_V1}/user/keys/query")
        answer = await self._client.request("POST", peer, target, question, limit=LARGEST_ANSWER)
        return _good(peer, device_answers.device_keys(answer, asked))

    async def claim(
        self, peer: str, asked: Mapping[str, Mapping[str, str]]
    ) -> dict[str, dict[str, Mapping[str, Any]]]:
        """A key for each device that has one left, by user and device. `asked`: the algorithm, likewise."""
        question = {"one_time_keys": {user_id: dict(devices) for user_id, devices in asked.items()}}
        target = request_target(f"{_V1}/user/keys/claim")
        answer = await self._client.request("POST", peer, target, question, limit=LARGEST_ANSWER)
        return _good(peer, device_answers.claimed_keys(answer, asked))


def _good(peer: str, read: T | NoAnswer) -> T:
    if isinstance(read, NoAnswer):
        raise PeerMalformed(peer, read.problem)
    return read
