"""How the core reads what happens in rooms, and that a homeserver of our own gives it so."""

import inspect

import pytest

from federation.stream import event_stream as living
from federation.stream.event_stream import Subscription


def as_subscription(subscription: living.Subscription) -> Subscription:
    """mypy compares the signatures here."""
    return subscription


@pytest.mark.parametrize("name", ["next", "advance", "cursor", "set_position"])
def test_a_subscription_is_one(name: str) -> None:
    """The same parameters under the same names, with the same defaults."""
    ours = inspect.signature(getattr(living.Subscription, name)).parameters.values()
    asked = inspect.signature(getattr(Subscription, name)).parameters.values()
    assert [(one.name, one.kind, one.default) for one in ours] == [
        (one.name, one.kind, one.default) for one in asked
    ]
