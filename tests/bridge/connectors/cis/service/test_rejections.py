"""Telling peers that a request has not become a task."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.connectors.cis.effects import NotAsked
from bridge.connectors.cis.service.rejections import OF_PEER, Refusing
from bridge.connectors.cis.service.sender import Letter, NotSaid, Said
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.errors import ErrorCode, TaskError
from tests.bridge.connectors.cis.cis_nodes import Eyes, peers_of
from tests.bridge.connectors.cis.made import request
from tests.support.agents import NOW

ERROR = TaskError(ErrorCode.AGENT_NOT_FOUND, "No.")


class Letters:
    def __init__(self) -> None:
        self.sent: asyncio.Queue[Letter] = asyncio.Queue()
        self.outcome: Said | NotSaid = Said("$1")

    async def send(self, access: PeerAccess, letter: Letter) -> Said | NotSaid:
        self.sent.put_nowait(letter)
        return self.outcome


@pytest.fixture
async def letters() -> Letters:
    return Letters()


@pytest.fixture
async def eyes() -> Eyes:
    return Eyes()


@pytest.fixture
async def refusing(letters: Letters, eyes: Eyes) -> AsyncIterator[Refusing]:
    one = Refusing(
        CisSettings("kitchen.local", peers_of("living.local")),
        letters,  # type: ignore[arg-type]
        eyes,
        now_ms=lambda: NOW,
        monotonic=lambda: 0.0,
    )
    one.start()
    yield one
    await one.close()


def refused(node_id: str = "living.local") -> NotAsked:
    return NotAsked(request(), ERROR, "alpha", node_id)


async def test_whoever_asked_is_told_why(refusing: Refusing, letters: Letters) -> None:
    """In the namespace in which it was asked; each time anew, for nothing is kept of it."""
    for _ in range(2):
        refusing.refuse(refused())
    first, second = await letters.sent.get(), await letters.sent.get()
    assert first.namespace == "alpha"
    assert first.name != second.name
    assert first.event.TYPE == "io.cis.agent.task.response"


async def test_who_asks_wrongly_without_end_is_not_answered_without_end(
    refusing: Refusing, letters: Letters
) -> None:
    """And others are."""
    for _ in range(OF_PEER.burst + 50):
        refusing.refuse(refused())
    for _ in range(OF_PEER.burst):
        await letters.sent.get()
    refusing.refuse(refused())
    await asyncio.sleep(0)
    assert letters.sent.empty()


async def test_who_is_no_peer_is_not_answered(refusing: Refusing, letters: Letters, eyes: Eyes) -> None:
    """And who cannot be answered is told of, and holds up nobody."""
    refusing.refuse(refused("elsewhere"))
    letters.outcome = NotSaid("away")
    refusing.refuse(refused())
    refusing.refuse(refused())
    await letters.sent.get()
    await letters.sent.get()
    await eyes.until(lambda eyes: len(eyes.problems) == 2)
    assert letters.sent.empty()
