"""What a client declares in its CONNECT payload."""

from typing import Any

import pytest

from bridge.connectors.offices.protocol.events import reads_tasks


def test_an_agent_can_declare_that_it_accepts_tasks() -> None:
    """Other keys are ignored."""
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
def test_any_other_payload_declares_nothing(auth: Any) -> None:
    """The payload may have any form."""
    assert not reads_tasks(auth)
