"""Inputs and effects of the state machine."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from federation.outbox.destination import Destination
from federation.outbox.messages import Effect, Fate, Forget, Heard, Input, Outage, Queued, Remember, Timer


def test_messages_are_values() -> None:
    """They are compared by value and immutable."""
    assert Queued() == Queued()
    assert len({Heard(), Heard(), Timer()}) == 2
    outage = Outage(1, 2, 3)
    with pytest.raises(FrozenInstanceError):
        outage.failures = 5  # type: ignore[misc] # that is the point
    assert Remember(outage) == Remember(Outage(1, 2, 3)) != Remember(None)
    assert Forget((), (), Fate.STALE) != Forget((), (), Fate.DELIVERED)


def test_every_input_is_in_the_machines_table() -> None:
    """And the table has no other inputs."""
    assert {kind for _, kind in Destination.TRANSITIONS} == set(get_args(Input))
    assert not set(get_args(Input)) & set(get_args(Effect))
