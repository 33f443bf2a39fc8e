"""`/metrics` on an address of its own."""

import socket

import aiohttp
import pytest

from bridge.observability.metrics import Metrics
from bridge.observability.metrics_server import MetricsServer
from storage.errors import LocalError


async def test_a_scrape_gets_the_prometheus_format() -> None:
    """As text, or as OpenMetrics for a scraper that asks for it."""
    server = MetricsServer(Metrics().registry, "127.0.0.1", 0)
    await server.start()
    try:
        assert server.address is not None
        url = "http://{}:{}/metrics".format(*server.address)
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as response:
                assert response.status == 200
                assert response.headers["Content-Type"].startswith("text/plain; version=")
                assert "palaver_event_loop_lag_seconds_bucket" in await response.text()
            async with session.get(url, headers={"Accept": "application/openmetrics-text"}) as response:
                assert response.headers["Content-Type"].startswith("application/openmetrics-text")
                assert (await response.text()).rstrip().endswith("# EOF")
    finally:
        await server.stop()


async def test_a_taken_port_is_told_with_the_settings_name() -> None:
    """And the server can be stopped although it never started."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = MetricsServer(Metrics().registry, "127.0.0.1", other.getsockname()[1])
        with pytest.raises(LocalError, match=r"metrics\.port"):
            await server.start()
        assert server.address is None
        await server.stop()


async def test_an_address_of_another_machine_is_told() -> None:
    """Not as a traceback."""
    server = MetricsServer(Metrics().registry, "192.0.2.1", 0)
    with pytest.raises(LocalError, match=r"metrics\.host"):
        await server.start()
