"""What a connector is, and how it is found out what it can do."""

from bridge.connectors.interface import (
    AnnouncesLost,
    AsksForTasks,
    BringsTasks,
    Connector,
    HasRoutes,
    PreparesTasks,
    RunsTasks,
    ShowsTasks,
)


class Small:
    """The least that there can be."""

    name = "small"

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Large(Small):
    delivery = reply = watcher = None

    def settings(self, agent: object) -> None: ...

    def work_for(self, desk: object) -> None: ...

    async def stop(self) -> None: ...

    def use_desk(self, desk: object) -> None: ...

    async def ask_no_more(self) -> None: ...

    def prepared(self, delivery: object) -> object:
        return delivery

    def routes(self) -> list[object]:
        return []

    async def announce_lost(self, lost: object) -> None: ...


def test_one_small_interface_is_required_and_the_rest_is_asked_for() -> None:
    """A connector that can do one thing only has one thing to write."""
    assert isinstance(Small(), Connector)
    assert isinstance(Large(), Connector)
    for capability in (
        BringsTasks,
        AsksForTasks,
        ShowsTasks,
        PreparesTasks,
        RunsTasks,
        HasRoutes,
        AnnouncesLost,
    ):
        assert not isinstance(Small(), capability)
        assert isinstance(Large(), capability)
