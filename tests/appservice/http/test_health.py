"""Whether the node lives and is ready, where supervisors of bridges look."""

from tests.appservice.http.port import Port


async def test_supervisors_show_no_token(port: Port) -> None:
    """The process answers in any case; ready it is when all parts are, and why it is not nobody is told."""
    for is_ready, status, word in ((False, 503, "not ready"), (True, 200, "ready")):
        port.is_ready = is_ready
        alive = await port.ask("GET", "/_matrix/mau/live", token=None)
        assert (alive.status, alive.json) == (200, {"status": "alive"})
        ready = await port.ask("GET", "/_matrix/mau/ready", token=None)
        assert (ready.status, ready.json) == (status, {"status": word})
