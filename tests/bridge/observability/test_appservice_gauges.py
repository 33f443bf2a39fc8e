"""Gauges of an attached node that need a database query."""

from prometheus_client import CollectorRegistry

from bridge.observability.appservice_observer import update_gauges
from bridge.observability.metrics import AppserviceMetrics
from storage.database import Database
from tests.appservice.test_appservice import GHOST, Homeserver, opened


async def test_gauges(database: Database) -> None:
    """Ghosts, rooms, and the lag of each reader."""
    registry = CollectorRegistry()
    metrics = AppserviceMetrics(registry)
    async with opened(database, Homeserver()) as (appservice, _):
        await appservice.local_users.ensure_user(GHOST)
        async with appservice.local_users.subscription("people"):
            await update_gauges(appservice, metrics)
    read = registry.get_sample_value
    assert read("palaver_appservice_ghosts") == 1
    assert read("palaver_appservice_rooms") == 0
    assert read("palaver_appservice_reader_lag", {"reader": "people"}) == 0
