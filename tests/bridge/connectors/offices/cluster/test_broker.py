"""The broker, on a link that is a list."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.connectors.offices.cluster.broker import (
    MAX_QUEUED,
    Broker,
    BrokerUnavailable,
    OfficeMessage,
    SocketMessage,
    decode,
    encode,
    office_message,
)


@dataclass
class FakeLink:
    """Collects what is sent, and delivers what the test puts into `incoming`."""

    sent: list[bytes] = field(default_factory=list)
    is_unavailable: bool = False
    hangs: bool = False
    incoming: "asyncio.Queue[bytes | BrokerUnavailable]" = field(default_factory=asyncio.Queue)

    async def send(self, data: bytes) -> None:
        if self.hangs:
            await asyncio.sleep(3600)
        if self.is_unavailable:
            raise BrokerUnavailable("connection refused")
        self.sent.append(data)

    async def listen(self, on_subscribed: Callable[[], None]) -> AsyncIterator[bytes]:
        if self.is_unavailable:
            raise BrokerUnavailable("connection refused")
        on_subscribed()
        while True:
            data = await self.incoming.get()
            if isinstance(data, BrokerUnavailable):
                raise data
            yield data

    async def close(self) -> None:
        pass


@dataclass
class Setup:
    link: FakeLink = field(default_factory=FakeLink)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker = Broker(self.link, lambda sentence, error: self.problems.append(sentence))

    async def sent(self) -> list[SocketMessage | OfficeMessage | None]:
        await self.broker._queue.join()
        return [decode(one) for one in self.link.sent]


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    made = Setup()
    await made.broker.start()
    yield made
    await made.broker.close()


async def emit(broker: Broker, sid: str = "far", on_answer: Callable[..., None] | None = None) -> None:
    await broker.emit("client:get_tools", {"a": 1}, "/smcp", to=sid, callback=on_answer)


async def test_an_event_for_a_connection_of_another_process_is_published(setup: Setup) -> None:
    """With the number of the callback, which is called with the acknowledgement."""
    answers: list[Any] = []
    await emit(setup.broker, on_answer=lambda *arguments: answers.append(arguments))
    [message] = await setup.sent()
    assert isinstance(message, SocketMessage)
    assert (message.content["room"], message.content["data"]) == ("far", [{"a": 1}])
    sid, namespace, number = message.content["callback"]
    callback = {
        "method": "callback", "host_id": setup.broker.host_id, "sid": sid, "namespace": namespace,
        "id": number, "args": [{"tools": []}],
    }  # fmt: skip
    # Acknowledgements for another process, with an unknown number, and repeated ones are ignored.
    for answer in ({**callback, "host_id": "x"}, {**callback, "id": 99}, callback, callback):
        await setup.link.incoming.put(encode(answer))
    async with asyncio.timeout(5):
        while not answers or not setup.link.incoming.empty():
            await asyncio.sleep(0)
    assert answers == [({"tools": []},)]
    assert setup.problems == []


async def test_callback_numbers_are_not_reused(setup: Setup) -> None:
    """After the callbacks of a connection were dropped, a late acknowledgement matches no newer one."""
    numbers = []
    for _ in range(2):
        await emit(setup.broker, on_answer=lambda *arguments: None)
        message = (await setup.sent())[-1]
        assert isinstance(message, SocketMessage)
        numbers.append(message.content["callback"][2])
        setup.broker.drop_callbacks("far")
    assert numbers[0] != numbers[1]
    assert setup.broker.callbacks == {}


async def test_requests_fail_at_once_while_the_broker_is_unavailable(setup: Setup) -> None:
    """They are not sent later. The failure is reported once."""
    setup.link.is_unavailable = True
    answers: list[Any] = []
    for _ in range(3):
        await emit(setup.broker, on_answer=lambda *arguments: answers.append(arguments))
    await setup.broker._queue.join()
    assert [answer[0]["code"] for answer in answers] == [500] * 3
    [problem] = setup.problems
    assert "connection refused" in problem
    setup.link.is_unavailable = False
    assert await setup.sent() == []


async def test_requests_fail_at_once_until_their_answers_can_be_received(setup: Setup) -> None:
    """The broker accepts messages again before this process listens again. Others are sent by then."""
    setup.link.is_unavailable = True
    await setup.link.incoming.put(BrokerUnavailable("connection refused"))
    async with asyncio.timeout(5):
        while not setup.problems:
            await asyncio.sleep(0)
    setup.link.is_unavailable = False
    answers: list[Any] = []
    await emit(setup.broker, on_answer=lambda *arguments: answers.append(arguments))
    setup.broker.publish("changed", {})
    assert await setup.sent() == [OfficeMessage(setup.broker.host_id, "changed", {})]
    assert [answer[0]["code"] for answer in answers] == [500]


async def test_a_reconnection_is_announced(setup: Setup) -> None:
    reconnected = asyncio.Event()
    setup.broker.on_reconnected = reconnected.set
    await setup.link.incoming.put(BrokerUnavailable("connection refused"))
    async with asyncio.timeout(5):
        await reconnected.wait()
    assert len(setup.problems) == 1


async def test_the_node_starts_without_its_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start waits for it only for a limited time."""
    monkeypatch.setattr("bridge.connectors.offices.cluster.broker.SEND_TIMEOUT", 0.1)
    setup = Setup(FakeLink(is_unavailable=True))
    async with asyncio.timeout(2):
        await setup.broker.start()
    await setup.broker.close()


async def test_subscribers_receive_messages_in_order(setup: Setup) -> None:
    """Own messages, messages of other kinds and invalid data are ignored."""
    received: list[Mapping[str, Any]] = []
    setup.broker.subscribe("changed", received.append)
    for data in (
        encode(office_message("other", "changed", {"number": 1})),
        encode(office_message(setup.broker.host_id, "changed", {"number": 2})),
        encode(office_message("other", "unheard of", {"number": 3})),
        b"nothing",
        encode({"method": "disconnect", "host_id": "other", "sid": "x", "namespace": "/smcp"}),
        encode(office_message("other", "changed", {"number": 4})),
    ):
        await setup.link.incoming.put(data)
    async with asyncio.timeout(5):
        while len(received) < 2:
            await asyncio.sleep(0)
    assert received == [{"number": 1}, {"number": 4}]


async def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that does not fit fails at once."""
    setup = Setup(FakeLink(hangs=True))
    await setup.broker.start()
    monkeypatch.setattr("bridge.connectors.offices.cluster.broker.CLOSE_TIMEOUT", 0.1)
    answers: list[Any] = []
    for _ in range(MAX_QUEUED + 2):
        await emit(setup.broker, on_answer=lambda *arguments: answers.append(arguments))
    await asyncio.sleep(0)
    assert len(answers) in {1, 2}
    await setup.broker.close()


async def test_a_request_that_is_not_json_fails_at_once(setup: Setup) -> None:
    """And the failure is reported."""
    answers: list[Any] = []
    await setup.broker.emit("x", object(), "/smcp", to="far", callback=lambda *arguments: answers.append(arguments))
    await asyncio.sleep(0)
    assert answers[0][0]["code"] == 500
    assert len(setup.problems) == 1


async def test_acknowledgements_are_sent_when_the_broker_is_back(setup: Setup) -> None:
    """Another process waits for them. The same holds for messages published with `retry`."""
    setup.link.is_unavailable = True
    await setup.broker._return_callback("other", "sid", "/smcp", 7, {"tools": []})
    setup.broker.publish("answered", {"by": "alice"}, retry=True)
    setup.broker.publish("changed", {})
    await setup.broker._queue.join()
    setup.link.is_unavailable = False
    await setup.link.incoming.put(BrokerUnavailable("connection refused"))
    async with asyncio.timeout(5):
        while len(setup.link.sent) < 2:
            await asyncio.sleep(0.01)
    callback, resent = await setup.sent()
    assert isinstance(callback, SocketMessage)
    assert (callback.content["id"], callback.content["args"]) == (7, [{"tools": []}])
    assert resent == OfficeMessage(setup.broker.host_id, "answered", {"by": "alice"})
