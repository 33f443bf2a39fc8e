"""What a connector is, and what it does by default."""

from dataclasses import FrozenInstanceError

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.interface import Connector, PortalRoom


class Small(Connector):
    """The least that there can be."""

    name = "small"

    async def start(self) -> None: ...

    async def close(self) -> None: ...


async def test_everything_but_start_and_close_has_a_default() -> None:
    """A connector that can do one thing only has one thing to write."""
    small = Small()
    assert (small.delivery, small.reply, small.watcher, small.runs_tasks) == (None, None, None, False)
    assert (list(small.routes()), small.commands(), small.streams()) == ([], {}, {})
    assert not small.owns_room("!room:here.test")
    assert await small.portal("!room:here.test") is None
    assert not await small.has_room("room")
    assert not await small.lead_to_room("room")
    assert not await small.make_room("#room:here.test", "there.test")
    assert not small.has_puppet(AgentAddress("worker", "there.test"))
    assert small.reserved_for(AgentAddress("worker", "here.test")) is None
    await small.announce_lost([])
    await small.stop()


def test_start_and_close_are_required() -> None:
    """A class without them is no connector."""
    with pytest.raises(TypeError):
        Connector()  # type: ignore[abstract]


def test_what_a_room_is_does_not_change() -> None:
    """It is passed on to operators."""
    with pytest.raises(FrozenInstanceError):
        PortalRoom("office").kind = "other"  # type: ignore[misc]
