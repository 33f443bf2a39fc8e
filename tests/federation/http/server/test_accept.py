"""Accepting connections."""

import asyncio
import errno
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager

import pytest

from federation.http.server.accept import EXHAUSTED, accept
from federation.http.server.listener import Bind, bind, bound_address
from tests.federation.http.running import TIMEOUT, Recorder


class Accepted:
    def __init__(self) -> None:
        self.hosts: asyncio.Queue[str] = asyncio.Queue()

    def take(self, accepted: socket.socket, host: str) -> None:
        accepted.close()
        self.hosts.put_nowait(host)

    async def next(self) -> str:
        async with asyncio.timeout(TIMEOUT):
            return await self.hosts.get()


@asynccontextmanager
async def accepting(listening: socket.socket, seen: Recorder) -> AsyncIterator[Accepted]:
    taken = Accepted()
    task = asyncio.create_task(accept(listening, taken.take, seen))
    try:
        yield taken
    finally:
        task.cancel()
        await asyncio.wait([task])


@contextmanager
def listening_socket() -> Iterator[tuple[socket.socket, tuple[str, int]]]:
    (listening,) = bind([Bind("127.0.0.1")], 0)
    with listening:
        yield listening, ("127.0.0.1", bound_address(listening).port)


async def test_each_connection_is_passed_on_with_its_host() -> None:
    """Until the task is cancelled."""
    with listening_socket() as (listening, address):
        async with accepting(listening, Recorder()) as taken:
            for _ in range(3):
                with closing(socket.create_connection(address)):
                    assert await taken.next() == "127.0.0.1"


@pytest.mark.parametrize("rounds", range(5))
async def test_no_connection_is_lost_by_cancelling(rounds: int) -> None:
    """Connections that were not passed on stay in the listening socket."""
    with listening_socket() as (listening, address), ExitStack() as clients:
        async with accepting(listening, Recorder()) as taken:
            await asyncio.sleep(0)
            clients.enter_context(closing(socket.create_connection(address)))
            for _ in range(rounds):
                await asyncio.sleep(0)
        async with accepting(listening, Recorder()) as left:
            assert await (taken if taken.hosts.qsize() else left).next() == "127.0.0.1"


async def test_running_out_of_files_is_reported_once_and_survived() -> None:
    """The loop retries after a pause, and pending connections are accepted later."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = Recorder()
    with listening_socket() as (listening, address), closing(socket.create_connection(address)):
        async with accepting(listening, seen) as taken:
            # A new file gets the lowest free descriptor, which is no longer below the limit.
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
            try:
                await seen.until(lambda seen: seen.problems)
                assert taken.hosts.empty()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert await taken.next() == "127.0.0.1"
    (problem,) = seen.problems
    assert "too many open files and connections" in problem[0]
    assert isinstance(problem[1], OSError)


class Failing(socket.socket):
    """A listening socket whose `accept` raises the given errors; 0 accepts a connection."""

    errors: list[int]

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        number = self.errors.pop(0) if self.errors else 0
        if number:
            raise OSError(number, "injected")
        return super().accept()


async def problems_of(errors: list[int]) -> list[str]:
    """Return the reported problems for a sequence of errors."""
    seen = Recorder()
    with listening_socket() as (listening, address), ExitStack() as clients:
        failing = Failing(fileno=listening.detach())
        failing.errors = list(errors)
        clients.enter_context(failing)
        for _ in range(errors.count(0)):
            clients.enter_context(socket.create_connection(address))
        async with accepting(failing, seen) as taken:
            for _ in range(errors.count(0)):
                await taken.next()
    return [sentence for sentence, _ in seen.problems]


async def test_repeated_errors_are_reported_once() -> None:
    """Until a connection has been accepted: errors must not fill the log."""
    assert await problems_of([errno.EMFILE, errno.EMFILE, 0, errno.ENOMEM, errno.EIO, 0]) == [
        f"No new connections can be accepted: {EXHAUSTED[errno.EMFILE]}.",
        f"No new connections can be accepted: {EXHAUSTED[errno.ENOMEM]}.",
    ]


async def test_a_peer_that_disconnected_is_not_reported() -> None:
    """This happens in normal operation."""
    assert await problems_of([errno.ECONNABORTED, errno.EPROTO, 0]) == []


async def test_an_unexpected_error_does_not_end_the_loop() -> None:
    """A node that has stopped listening would still look alive."""
    assert await problems_of([errno.ENETDOWN, 0]) == [
        "No new connections can be accepted: the system reports “injected”."
    ]
