"""Texts that are stored as media and restored."""

from dataclasses import replace
from hashlib import sha256

import pytest

from bridge.connectors.cis.protocol.events import TaskRequest
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.service.long_texts import TextRestoringDelivery, fit_event, restore_texts
from bridge.peers.peer import PeerProfile
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, Rejected, RetryLater
from bridge.tasks.request import Origin, TaskKey
from bridge.tasks.request import TaskRequest as Request
from bridge.tasks.task import Task
from tests.bridge.connectors.cis.cis_nodes import CisNodes
from tests.bridge.connectors.cis.event_builders import COORDINATOR, WORKER, message, request
from tests.federation.nodes import Node

LONG = "ä" * 100_000


async def test_a_long_text_becomes_media(nodes: CisNodes) -> None:
    """The other node restores it."""
    here, there = await nodes.start("a.test", "b.test")
    event = await fit_event(here.rooms, request(prompt=LONG), "@w:a.test", PeerProfile.MATRIX)
    assert isinstance(event, TaskRequest)
    assert len(event.task.prompt) < 10_000
    task = await restore_texts(there.rooms, asked(event.task.metadata, event.task.prompt))
    assert isinstance(task, Task)
    assert task.request.prompt == LONG
    assert task.request.metadata == {}


async def test_a_short_text_is_unchanged(nodes: CisNodes) -> None:
    """In both directions; an event that cannot be shortened is too large."""
    [here] = await nodes.start("a.test")
    event = request()
    assert await fit_event(here.rooms, event, "@w:a.test", PeerProfile.MATRIX) is event
    large = await fit_event(here.rooms, message("x" * 100_000), "@w:a.test", PeerProfile.MATRIX)
    assert isinstance(large, TooLarge)
    task = asked({"a": 1}, "do it")
    assert await restore_texts(here.rooms, task) is task


def asked(metadata: dict[str, object], prompt: str, protocol: str = "cis", node_id: str = "a.test") -> Task:
    key = TaskKey(node_id, "req-1")
    made = Request(key, "t", COORDINATOR, WORKER, prompt, Origin(protocol), metadata=metadata)
    return Task(made, 1, 2)


async def stored(node: Node, data: bytes) -> dict[str, object]:
    await node.rooms.ensure_user("@w:a.test")
    info = await node.rooms.upload("@w:a.test", data)
    return {"url": str(info.mxc), "size": len(data), "sha256": sha256(data).hexdigest()}


@pytest.mark.parametrize(
    ("data", "changed"),
    [
        (b"text", {"size": 3}),
        (b"text", {"size": 5}),
        (b"text", {"sha256": "0" * 64}),
        (b"\xff", {}),
        (b"a\0b", {}),
        (b"text", {"size": 2**40}),
    ],
)
async def test_a_text_that_does_not_match_is_rejected(nodes: CisNodes, data: bytes, changed: dict[str, object]) -> None:
    """A wrong size, a wrong hash, binary data, or a text above the limit: INVALID_PAYLOAD."""
    [here] = await nodes.start("a.test")
    reference = {**await stored(here, data), **changed}
    task = await restore_texts(here.rooms, asked({"io.palaver.media": {"prompt": reference}}, "short"))
    assert isinstance(task, TaskError)
    assert task.code is ErrorCode.INVALID_PAYLOAD


async def test_a_reference_to_another_server_is_ignored(nodes: CisNodes) -> None:
    """The text stays shortened."""
    [here] = await nodes.start("a.test")
    reference = await stored(here, b"text")
    task = asked({"io.palaver.media": {"prompt": reference}}, "short", node_id="b.test")
    assert await restore_texts(here.rooms, task) is task


class RecordingDelivery:
    def __init__(self) -> None:
        self.delivered: list[Task] = []

    async def deliver(self, task: Task) -> DeliveryOutcome:
        self.delivered.append(task)
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        self.delivered.remove(task)
        return True


async def test_the_delivery_restores_the_full_text(nodes: CisNodes) -> None:
    """For a task that arrived as an event. A failed download is retried, a wrong text is rejected."""
    [here] = await nodes.start("a.test")
    recording = RecordingDelivery()
    delivery = TextRestoringDelivery(here.rooms, recording)
    good = {"io.palaver.media": {"prompt": await stored(here, b"whole")}}
    gone = {"io.palaver.media": {"prompt": {"url": "mxc://a.test/none", "size": 1, "sha256": "0" * 64}}}
    assert await delivery.deliver(asked(good, "short")) == Delivered()
    assert recording.delivered[0].request.prompt == "whole"
    other = asked(good, "short", protocol="other")
    assert await delivery.deliver(other) == Delivered()
    assert recording.delivered[1] is other
    assert await delivery.cancel(other)
    assert isinstance(await delivery.deliver(asked(gone, "short")), RetryLater)
    wrong = replace(asked(good, "short"))
    bad = {"io.palaver.media": {"prompt": {**good["io.palaver.media"]["prompt"], "size": 1}}}
    assert isinstance(await delivery.deliver(asked(bad, wrong.request.prompt)), Rejected)
