"""What processes of a node say to each other by a broker, which is a list here."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.connectors.offices.cluster.broker import (
    MOST_WAITING,
    Broker,
    BrokerAway,
    OfficeMessage,
    SocketMessage,
    encoded,
    office_message,
    read,
)


@dataclass
class Wire:
    """A link that notes what is said, and says what it is given."""

    sent: list[bytes] = field(default_factory=list)
    is_away: bool = False
    hangs: bool = False
    coming: "asyncio.Queue[bytes | BrokerAway]" = field(default_factory=asyncio.Queue)

    async def send(self, data: bytes) -> None:
        if self.hangs:
            await asyncio.sleep(3600)
        if self.is_away:
            raise BrokerAway("it has gone")
        self.sent.append(data)

    async def listen(self, began: Callable[[], None]) -> AsyncIterator[bytes]:
        if self.is_away:
            raise BrokerAway("it has gone")
        began()
        while True:
            data = await self.coming.get()
            if isinstance(data, BrokerAway):
                raise data
            yield data

    async def close(self) -> None:
        pass


@dataclass
class Place:
    wire: Wire = field(default_factory=Wire)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker = Broker(self.wire, lambda sentence, error: self.problems.append(sentence))

    async def sent(self) -> list[SocketMessage | OfficeMessage | None]:
        await self.broker._waiting.join()
        return [read(one) for one in self.wire.sent]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    await made.broker.start()
    yield made
    await made.broker.close()


async def emit(broker: Broker, sid: str = "far", answered: Callable[..., None] | None = None) -> None:
    await broker.emit("client:get_tools", {"a": 1}, "/smcp", to=sid, callback=answered)


async def test_an_event_for_a_connection_of_another_process(place: Place) -> None:
    """Goes to the broker, with the number under which its answer comes back."""
    answers: list[Any] = []
    await emit(place.broker, answered=lambda *said: answers.append(said))
    [message] = await place.sent()
    assert isinstance(message, SocketMessage)
    assert (message.said["room"], message.said["data"]) == ("far", [{"a": 1}])
    sid, namespace, number = message.said["callback"]
    callback = {
        "method": "callback", "host_id": place.broker.host_id, "sid": sid, "namespace": namespace,
        "id": number, "args": [{"tools": []}],
    }  # fmt: skip
    # That of another process, one that nobody waits for, and the same once more, are no answers.
    for said in ({**callback, "host_id": "x"}, {**callback, "id": 99}, callback, callback):
        await place.wire.coming.put(encoded(said))
    async with asyncio.timeout(5):
        while not answers or not place.wire.coming.empty():
            await asyncio.sleep(0)
    assert answers == [({"tools": []},)]
    assert place.problems == []


async def test_a_late_answer_belongs_to_nothing_newer(place: Place) -> None:
    """A connection that was forgotten, and is asked again, gets other numbers."""
    numbers = []
    for _ in range(2):
        await emit(place.broker, answered=lambda *said: None)
        message = (await place.sent())[-1]
        assert isinstance(message, SocketMessage)
        numbers.append(message.said["callback"][2])
        place.broker.forget("far")
    assert numbers[0] != numbers[1]
    assert place.broker.callbacks == {}


async def test_who_asks_while_the_broker_is_away(place: Place) -> None:
    """Is told at once; nothing is said later, when nobody waits for it any more. It is reported once."""
    place.wire.is_away = True
    answers: list[Any] = []
    for _ in range(3):
        await emit(place.broker, answered=lambda *said: answers.append(said))
    await place.broker._waiting.join()
    assert [answer[0]["code"] for answer in answers] == [500] * 3
    assert place.problems == [
        "The broker of offices is away: it has gone. Its processes go on by themselves."
    ]
    place.wire.is_away = False
    assert await place.sent() == []


async def test_who_comes_back_may_have_missed_something(place: Place) -> None:
    renewed = asyncio.Event()
    place.broker.renewed = renewed.set
    await place.wire.coming.put(BrokerAway("it has gone"))
    async with asyncio.timeout(5):
        await renewed.wait()
    assert len(place.problems) == 1


async def test_a_broker_that_is_away_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than a moment: the node starts all the same."""
    monkeypatch.setattr("bridge.connectors.offices.cluster.broker.TIMEOUT", 0.1)
    place = Place(Wire(is_away=True))
    async with asyncio.timeout(2):
        await place.broker.start()
    await place.broker.close()


async def test_what_others_say_is_heard(place: Place) -> None:
    """In its order; what is our own, what nobody wants to hear, and what is nothing, is passed over."""
    heard: list[Mapping[str, Any]] = []
    place.broker.hear("changed", heard.append)
    for data in (
        encoded(office_message("other", "changed", {"number": 1})),
        encoded(office_message(place.broker.host_id, "changed", {"number": 2})),
        encoded(office_message("other", "unheard of", {"number": 3})),
        b"nothing",
        encoded({"method": "disconnect", "host_id": "other", "sid": "x", "namespace": "/smcp"}),
        encoded(office_message("other", "changed", {"number": 4})),
    ):
        await place.wire.coming.put(data)
    async with asyncio.timeout(5):
        while len(heard) < 2:
            await asyncio.sleep(0)
    assert heard == [{"number": 1}, {"number": 4}]


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks when there is no room is told so at once."""
    place = Place(Wire(hangs=True))
    await place.broker.start()
    monkeypatch.setattr("bridge.connectors.offices.cluster.broker.LAST_WORDS", 0.1)
    answers: list[Any] = []
    for _ in range(MOST_WAITING + 2):
        await emit(place.broker, answered=lambda *said: answers.append(said))
    await asyncio.sleep(0)
    assert len(answers) in {1, 2}
    await place.broker.close()


async def test_what_is_no_json(place: Place) -> None:
    """Is not said, and who asked is told so."""
    answers: list[Any] = []
    await place.broker.emit("x", object(), "/smcp", to="far", callback=lambda *said: answers.append(said))
    await asyncio.sleep(0)
    assert answers[0][0]["code"] == 500
    assert len(place.problems) == 1


async def test_an_answer_that_could_not_be_said(place: Place) -> None:
    """Is said when the broker is back: somebody waits for it. So is what it was told to keep."""
    place.wire.is_away = True
    await place.broker._return_callback("other", "sid", "/smcp", 7, {"tools": []})
    place.broker.say("answered", {"by": "alice"}, keeps=True)
    place.broker.say("changed", {})
    await place.broker._waiting.join()
    place.wire.is_away = False
    await place.wire.coming.put(BrokerAway("it has gone"))
    async with asyncio.timeout(5):
        while len(place.wire.sent) < 2:
            await asyncio.sleep(0.01)
    callback, kept = await place.sent()
    assert isinstance(callback, SocketMessage)
    assert (callback.said["id"], callback.said["args"]) == (7, [{"tools": []}])
    assert kept == OfficeMessage(place.broker.host_id, "answered", {"by": "alice"})
