"""What a connection says of itself."""

from typing import Any

import pytest

from bridge.connectors.offices.protocol.events import reads_tasks


def test_who_declares_it_reads_tasks() -> None:
    """Whatever else is said beside it."""
    assert reads_tasks({"token": "x", "palaver": {"tasks": True, "more": 1}})


@pytest.mark.parametrize(
    "auth",
    [
        None,
        {},
        [],
        "palaver",
        {"palaver": None},
        {"palaver": True},
        {"palaver": {}},
        {"palaver": ["tasks"]},
        {"palaver": {"tasks": 1}},
        {"palaver": {"tasks": "true"}},
        {"palaver": {"tasks": False}},
        {"tasks": True},
    ],
)
def test_nobody_else_does(auth: Any) -> None:
    """A CONNECT may hold anything."""
    assert not reads_tasks(auth)
