"""EDUs that are queued in memory only."""

import pytest

from federation.outbox.lossy_edus import MAX_HELD, LossyEdus
from federation.outbox.send_queue import EduRef
from federation.transactions.edus import Receipt, ToDevice, Typing
from federation.transactions.outgoing_edus import TYPING_MAX_AGE_MS, OutgoingEdu, receipt, to_device, typing

ROOM, BOB = "!room:a.example", "@bob:b.example"
TYPES, STOPS = typing(Typing(ROOM, BOB, True)), typing(Typing(ROOM, BOB, False))
READS = receipt(Receipt(ROOM, BOB, "$e", 1))


def test_a_newer_edu_replaces_a_queued_one() -> None:
    """It gets the same position, so nothing new is queued."""
    edus = LossyEdus()
    ref = edus.put(TYPES, 0)
    assert ref == EduRef(1, ephemeral=True)
    assert edus.put(STOPS, 1) is None
    assert edus.put(READS, 1) == EduRef(2, ephemeral=True)
    assert edus.take([ref], 2) == [("m.typing", STOPS.content)]


def test_an_edu_in_flight_is_not_replaced() -> None:
    """It may have been delivered; the newer one is sent after it."""
    edus = LossyEdus()
    first = edus.put(TYPES, 0)
    assert first is not None
    edus.take([first], 0)
    second = edus.put(STOPS, 1)
    assert second is not None
    assert edus.take([first, second], 2) == [("m.typing", TYPES.content), ("m.typing", STOPS.content)]
    edus.remove([first, second])
    assert len(edus) == 0
    assert edus.put(STOPS, 1) is not None


def test_an_expired_edu_is_not_sent() -> None:
    """A typing notification is useless after a minute."""
    edus = LossyEdus()
    ref = edus.put(TYPES, 0)
    assert ref is not None
    assert edus.take([ref], TYPING_MAX_AGE_MS) == []
    assert edus.take([EduRef(99, ephemeral=True)], 0) == []


def test_a_removed_edu_is_not_sent() -> None:
    """Its key is free again."""
    edus = LossyEdus()
    ref = edus.put(TYPES, 0)
    assert ref is not None
    edus.remove([ref, EduRef(99, ephemeral=True)])
    assert edus.put(STOPS, 0) == EduRef(2, ephemeral=True)


def test_an_edu_without_a_key_is_not_replaced() -> None:
    """All of them are sent."""
    edus = LossyEdus()
    beat = OutgoingEdu("io.cis.agent.heartbeat", {}, None, 1_000)
    assert [edus.put(beat, 0), edus.put(beat, 0)] == [EduRef(1, ephemeral=True), EduRef(2, ephemeral=True)]
    edus.remove([EduRef(1, ephemeral=True)])
    assert len(edus.take([EduRef(2, ephemeral=True)], 0)) == 1


def test_an_edu_that_must_be_delivered_is_refused() -> None:
    """A restart would lose it."""
    with pytest.raises(AssertionError, match="must be delivered"):
        LossyEdus().put(to_device(ToDevice(BOB, "t", "m", {})), 0)


def test_beyond_the_limit_the_oldest_are_dropped() -> None:
    """An unreachable server uses bounded memory."""
    edus = LossyEdus()
    refs = [edus.put(OutgoingEdu("t", {"n": number}, None, 1_000), 0) for number in range(MAX_HELD + 2)]
    held = [ref for ref in refs if ref is not None]
    assert len(edus) == MAX_HELD
    assert [content["n"] for _, content in edus.take(held[:4], 0)] == [2, 3]
