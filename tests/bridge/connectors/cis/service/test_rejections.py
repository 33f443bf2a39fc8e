"""Answers to requests that have not become tasks."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.connectors.cis.effects import RejectTask
from bridge.connectors.cis.service.rejections import PEER_RATE, TaskRejections
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, Sent
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.errors import ErrorCode, TaskError
from tests.bridge.connectors.cis.cis_nodes import RecordingObserver, peers_of
from tests.bridge.connectors.cis.event_builders import request
from tests.support.agents import NOW

ERROR = TaskError(ErrorCode.AGENT_NOT_FOUND, "No.")


class RecordingMessenger:
    def __init__(self) -> None:
        self.sent: asyncio.Queue[OutgoingEvent] = asyncio.Queue()
        self.outcome: Sent | NotSent = Sent("$1")

    async def send(self, access: PeerAccess, letter: OutgoingEvent) -> Sent | NotSent:
        self.sent.put_nowait(letter)
        return self.outcome


@pytest.fixture
async def messenger() -> RecordingMessenger:
    return RecordingMessenger()


@pytest.fixture
async def observer() -> RecordingObserver:
    return RecordingObserver()


@pytest.fixture
async def rejections(messenger: RecordingMessenger, observer: RecordingObserver) -> AsyncIterator[TaskRejections]:
    one = TaskRejections(
        CisSettings("kitchen.local", peers_of("living.local")),
        messenger,  # type: ignore[arg-type]
        observer,
        now_ms=lambda: NOW,
        monotonic=lambda: 0.0,
    )
    one.start()
    yield one
    await one.close()


def rejection(node_id: str = "living.local") -> RejectTask:
    return RejectTask(request(), ERROR, "alpha", node_id)


async def test_the_requester_gets_the_reason(rejections: TaskRejections, messenger: RecordingMessenger) -> None:
    """In the namespace of the request; a repeated request is answered again, because nothing is stored."""
    for _ in range(2):
        rejections.reject(rejection())
    first, second = await messenger.sent.get(), await messenger.sent.get()
    assert first.namespace == "alpha"
    assert first.key != second.key
    assert first.event.TYPE == "io.cis.agent.task.response"


async def test_the_answers_to_a_peer_are_rate_limited(
    rejections: TaskRejections, messenger: RecordingMessenger
) -> None:
    """Other peers are still answered."""
    for _ in range(PEER_RATE.burst + 50):
        rejections.reject(rejection())
    for _ in range(PEER_RATE.burst):
        await messenger.sent.get()
    rejections.reject(rejection())
    await asyncio.sleep(0)
    assert messenger.sent.empty()


async def test_only_peers_are_answered(
    rejections: TaskRejections, messenger: RecordingMessenger, observer: RecordingObserver
) -> None:
    """An answer that cannot be sent is reported, and does not delay others."""
    rejections.reject(rejection("elsewhere"))
    messenger.outcome = NotSent("away")
    rejections.reject(rejection())
    rejections.reject(rejection())
    await messenger.sent.get()
    await messenger.sent.get()
    await observer.until(lambda observer: len(observer.problems) == 2)
    assert messenger.sent.empty()
