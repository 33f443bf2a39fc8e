"""An Agent that calls and a Computer that answers, by way of a server that only brings."""

import pytest

from bench._offices.office import PARAMETERS, Office, result
from bench._offices.sides import Listener, Place
from tests.bench._offices.relaying import TOKEN, relaying


async def test_each_call_is_answered_by_its_own_answer() -> None:
    """And each has a mark of its own."""
    async with relaying() as (server, port):
        listener = Listener(port, TOKEN)
        office = Office(Place(listener, listener, "lab@there"))
        await office.settle()
        assert set(server.joined) == {"scale-of-lab", "planner-of-lab"}
        for _ in range(3):
            assert await office.call() > 0
        marks = [said["req_id"] for said in server.asked]
        assert len(set(marks)) == 3
        assert [said["params"] for said in server.asked] == [{**PARAMETERS, "mark": mark} for mark in marks]
        office.close()


async def test_another_answer_is_noticed() -> None:
    """That of another call, say."""
    async with relaying() as (server, port):
        listener = Listener(port, TOKEN)
        office = Office(Place(listener, listener, "lab"))
        await office.settle()
        server.answered = lambda answer: result("of another call")  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match="was answered"):
            await office.call()
        office.close()


async def test_who_is_not_let_into_the_office_is_noticed() -> None:
    """At the beginning."""
    async with relaying() as (_, port):
        listener = Listener(port, TOKEN)
        with pytest.raises(AssertionError, match="is not let into the office"):
            await Office(Place(listener, listener, "closed")).settle()
