"""The metrics endpoint."""

import socket

import aiohttp
import pytest

from bridge.observability.metrics import Metrics
from bridge.observability.metrics_server import MetricsServer
from storage.errors import LocalError


async def test_formats() -> None:
    """Text, or OpenMetrics on request."""
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


async def test_taken_port() -> None:
    """The error names the setting, and the server can be stopped."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = MetricsServer(Metrics().registry, "127.0.0.1", other.getsockname()[1])
        with pytest.raises(LocalError, match=r"metrics\.port"):
            await server.start()
        assert server.address is None
        await server.stop()


async def test_invalid_address() -> None:
    """A sentence, not a traceback."""
    server = MetricsServer(Metrics().registry, "192.0.2.1", 0)
    with pytest.raises(LocalError, match=r"metrics\.host"):
        await server.start()
