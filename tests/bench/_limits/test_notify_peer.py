import asyncio
from typing import Any, cast

from bench._limits.notify_peer import NotifyPeer


class Speaking:
    """A connection that keeps what is notified, and echoes it before it says that it was sent."""

    def __init__(self) -> None:
        self.executed: list[tuple[Any, ...]] = []
        self.peer: NotifyPeer | None = None

    async def execute(self, *statement: Any) -> None:
        self.executed.append(statement)
        if self.peer is not None:
            self.peer.receive()


async def test_an_echo_may_be_faster_than_the_notification_returns() -> None:
    """The listening connection is another one; nothing orders the two."""
    speaking = Speaking()
    peer = NotifyPeer(cast("Any", speaking))
    speaking.peer = peer
    await asyncio.wait_for(peer.round_trip("word"), 10)
    assert speaking.executed == [("SELECT pg_notify($1, $2)", "bench_there", "word")]


async def test_a_round_trip_waits_for_its_echo() -> None:
    """However long that takes; an echo that nobody waits for does no harm."""
    peer = NotifyPeer(cast("Any", Speaking()))
    peer.receive()
    travelling = asyncio.create_task(peer.round_trip("word"))
    await asyncio.sleep(0.01)
    assert not travelling.done()
    peer.receive()
    peer.receive()
    await asyncio.wait_for(travelling, 10)
