"""`GET /health/live` and `GET /health/ready`."""

from copy import copy
from functools import partial
from ipaddress import ip_network

from federation.http.server.tls import Tls, TlsFiles
from federation.http.services import Readiness
from tests.federation.http.running import client_context, running
from tests.support.tls import Authority

AWAY = "The database does not answer."


async def test_live_does_not_depend_on_checks() -> None:
    """It shows only that the process responds."""
    async with running(readiness=lambda: Readiness({"database": AWAY})) as node, await node.connect() as client:
        answer = await client.ask("/health/live")
        assert (answer.status, answer.json) == (200, {"status": "alive"})


async def test_ready_lists_all_checks() -> None:
    """If they pass."""
    async with (
        running(readiness=lambda: Readiness({"database": None, "keys": None})) as node,
        await node.connect() as client,
    ):
        answer = await client.ask("/health/ready")
        assert answer.status == 200
        assert answer.json == {"status": "ready", "checks": {"database": "fine", "keys": "fine"}}


async def test_not_ready_has_the_failed_checks() -> None:
    """With status 503 for load balancers."""
    async with (
        running(readiness=lambda: Readiness({"database": AWAY, "keys": None})) as node,
        await node.connect() as client,
    ):
        answer = await client.ask("/health/ready")
        assert answer.status == 503
        assert answer.json == {
            "status": "not ready",
            "checks": {"database": AWAY, "keys": "fine"},
            "error": f"database: {AWAY}",
        }


async def test_other_networks_get_the_status_only(tls_files: TlsFiles, authority: Authority) -> None:
    """Details are for the networks that may use plain HTTP."""
    for readiness, status in ((Readiness({"database": AWAY}), 503), (Readiness({"database": None}), 200)):
        async with (
            running(
                tls=Tls(tls_files), plain_networks=(ip_network("192.0.2.0/24"),), readiness=partial(copy, readiness)
            ) as node,
            await node.connect(client_context(authority)) as client,
        ):
            answer = await client.ask("/health/ready")
            assert answer.status == status
            assert answer.json == {"status": "ready" if status == 200 else "not ready"}
