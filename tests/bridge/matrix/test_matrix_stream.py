"""The stream of events, and that the homeserver provides it."""

import inspect

import pytest

from federation.stream import event_stream as living
from federation.stream.event_stream import Subscription


def as_subscription(subscription: living.Subscription) -> Subscription:
    """mypy compares the signatures."""
    return subscription


@pytest.mark.parametrize("name", ["next", "advance", "cursor", "set_position"])
def test_subscription_signature(name: str) -> None:
    """The same parameter names and defaults."""
    ours = inspect.signature(getattr(living.Subscription, name)).parameters.values()
    asked = inspect.signature(getattr(Subscription, name)).parameters.values()
    assert [(one.name, one.kind, one.default) for one in ours] == [(one.name, one.kind, one.default) for one in asked]
