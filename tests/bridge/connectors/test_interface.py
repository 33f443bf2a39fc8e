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
    """A connector implements only the capabilities that it has."""
    small = Small()
    assert (small.delivery, small.reply, small.watcher, small.runs_tasks) == (None, None, None, False)
    assert (list(small.routes()), small.commands(), small.streams()) == ([], {}, {})
    assert not small.owns_room("!room:here.test")
    assert await small.portal("!room:here.test") is None
    assert not await small.has_alias("room")
    assert not await small.ensure_alias("room")
    assert not await small.create_for_alias("#room:here.test", "there.test")
    assert not small.has_local_ghost(AgentAddress("worker", "there.test"))
    assert small.reserved_for(AgentAddress("worker", "here.test")) is None
    await small.announce_lost([])
    await small.stop()


def test_start_and_close_are_required() -> None:
    """A class without them cannot be instantiated."""
    with pytest.raises(TypeError):
        Connector()  # type: ignore[abstract]


def test_a_portal_room_is_immutable() -> None:
    """It is shared between the connector and its callers."""
    with pytest.raises(FrozenInstanceError):
        PortalRoom("office").kind = "other"  # type: ignore[misc]
