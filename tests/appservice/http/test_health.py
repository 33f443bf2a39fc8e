"""Health endpoints for bridge supervisors."""

from tests.appservice.http.port import Port


async def test_health_needs_no_token(port: Port) -> None:
    """It is live as soon as the process responds, and ready when every check passes; no reason is
    revealed."""
    for is_ready, status, word in ((False, 503, "not ready"), (True, 200, "ready")):
        port.is_ready = is_ready
        alive = await port.ask("GET", "/_matrix/mau/live", token=None)
        assert (alive.status, alive.json) == (200, {"status": "alive"})
        ready = await port.ask("GET", "/_matrix/mau/ready", token=None)
        assert (ready.status, ready.json) == (status, {"status": word})
