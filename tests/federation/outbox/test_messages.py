"""Inputs and effects of the state machine."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from federation.outbox.destination import Destination
from federation.outbox.messages import (
    Effect,
    Input,
    Outage,
    PeerRequest,
    QueuedItems,
    RemovalReason,
    Remove,
    StoreOutage,
    Timer,
)


def test_messages_are_values() -> None:
    """They are compared by value and immutable."""
    assert QueuedItems() == QueuedItems()
    assert len({PeerRequest(), PeerRequest(), Timer()}) == 2
    outage = Outage(1, 2, 3)
    with pytest.raises(FrozenInstanceError):
        outage.failures = 5  # type: ignore[misc] # must fail
    assert StoreOutage(outage) == StoreOutage(Outage(1, 2, 3)) != StoreOutage(None)
    assert Remove((), (), RemovalReason.STALE) != Remove((), (), RemovalReason.DELIVERED)


def test_every_input_is_in_the_machines_table() -> None:
    """And the table has no other inputs."""
    assert {kind for _, kind in Destination.TRANSITIONS} == set(get_args(Input))
    assert not set(get_args(Input)) & set(get_args(Effect))
