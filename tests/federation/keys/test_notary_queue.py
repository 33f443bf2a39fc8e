"""One query to a notary at a time."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from federation.keys.key_documents import KeyDocument
from federation.keys.key_ring import MAX_SERVERS_PER_QUERY, Needs, NotaryQueue
from federation.keys.server_keys import KeyNeed

FOUND = KeyDocument(b"{}", ())


async def test_needs_during_a_query_go_into_the_next_one() -> None:
    """A room with five hundred servers of which half are offline costs a few queries."""
    release = asyncio.Event()
    asked: list[list[str]] = []

    async def ask(needs: Needs) -> Mapping[str, Sequence[KeyDocument]]:
        asked.append(sorted(needs))
        await release.wait()
        return {"s1": [FOUND]}

    queue = NotaryQueue(ask)
    waiting = [asyncio.create_task(queue.documents("s0", []))]
    while not asked:  # until the task of the queue has begun
        await asyncio.sleep(0)
    names = [f"s{at}" for at in range(1, MAX_SERVERS_PER_QUERY + 3)]
    waiting += [asyncio.create_task(queue.documents(name, [KeyNeed(name, "ed25519:1")])) for name in names]
    await asyncio.sleep(0)
    release.set()
    answers = await asyncio.gather(*waiting)
    assert [len(batch) for batch in asked] == [1, MAX_SERVERS_PER_QUERY, 2]
    assert sorted(name for batch in asked for name in batch) == sorted(["s0", *names])
    assert answers == [(), [FOUND], *[()] * (len(names) - 1)]


async def test_a_local_error_reaches_all_callers() -> None:
    """The queue continues afterwards; the database may have been unavailable for a moment."""
    problems = [ValueError("no")]

    async def ask(_: Needs) -> Mapping[str, Sequence[KeyDocument]]:
        if problems:
            raise problems.pop()
        return {}

    queue = NotaryQueue(ask)
    with pytest.raises(ValueError, match="no"):
        await queue.documents("a.test", [])
    assert await queue.documents("a.test", []) == ()


async def test_closing_leaves_nothing_running() -> None:
    """Closing an unused queue is no error."""
    asked = asyncio.Event()

    async def ask(_: Needs) -> Mapping[str, Sequence[KeyDocument]]:
        asked.set()
        await asyncio.Event().wait()
        return {}

    await NotaryQueue(ask).close()
    queue = NotaryQueue(ask)
    waiting = asyncio.create_task(queue.documents("a.test", []))
    await asked.wait()
    await queue.close()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancelled_caller_is_removed() -> None:
    """Before its query and during it."""
    asked: list[list[str]] = []
    first = asyncio.Event()

    async def ask(needs: Needs) -> Mapping[str, Sequence[KeyDocument]]:
        asked.append(sorted(needs))
        await first.wait()
        return {}

    queue = NotaryQueue(ask)
    waiting = [asyncio.create_task(queue.documents(name, [])) for name in ("a.test", "b.test")]
    while not asked:
        await asyncio.sleep(0)
    late = asyncio.create_task(queue.documents("c.test", []))
    await asyncio.sleep(0)
    for one in (waiting[0], late):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    first.set()
    assert await waiting[1] == ()
    assert await queue.documents("d.test", []) == ()
    assert asked == [["a.test", "b.test"], ["d.test"]]
