"""Figures of a guest that have to be asked of the database."""

from prometheus_client import CollectorRegistry

from bridge.observability.appservice_observer import show_figures
from bridge.observability.metrics import AppserviceMetrics
from storage.database import Database
from tests.appservice.test_guest import GHOST, Homeserver, opened


async def test_they_are_shown(database: Database) -> None:
    """Ghosts, rooms, and how far each reader is behind."""
    registry = CollectorRegistry()
    metrics = AppserviceMetrics(registry)
    async with opened(database, Homeserver()) as (guest, _):
        await guest.rooms.ensure_user(GHOST)
        async with guest.rooms.subscription("people"):
            await show_figures(guest, metrics)
    read = registry.get_sample_value
    assert read("palaver_appservice_ghosts") == 1
    assert read("palaver_appservice_rooms") == 0
    assert read("palaver_appservice_reader_lag", {"reader": "people"}) == 0
