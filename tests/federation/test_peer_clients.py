"""The clients for other servers."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from federation.client.errors import PeerNotAllowed, PeerUnreachable
from federation.client.requests import request_target
from federation.homeserver import HomeserverSettings, open_peer_clients
from federation.observer import HomeserverObserver
from federation.peers.audit_trail import AuditTrail
from federation.peers.policy import policy
from storage.database import Database
from tests.federation.nodes import keys_of, now_ms
from tests.support.ports import lasting_port

VERSION = request_target("/_matrix/federation/v1/version")


async def test_the_policy_and_blocked_networks_apply(database: Database, tmp_path: Path) -> None:
    """An open node contacts unknown servers, but they cannot direct it into its own network."""
    keys = keys_of("us.test")
    settings = HomeserverSettings("us.test", "1", tmp_path, policy=policy((), is_open=True, refused=["refused.test"]))
    async with AsyncExitStack() as stack:
        clients = open_peer_clients(
            stack,
            settings,
            database,
            lambda: keys,
            now_ms=now_ms,
            observer=HomeserverObserver(),
            recorder=AuditTrail(database, now_ms=now_ms),
        )
        with pytest.raises(PeerNotAllowed):
            await clients.client.request("GET", "refused.test", VERSION)
        with pytest.raises(PeerUnreachable, match="address"):
            await clients.client.request("GET", f"127.0.0.1:{lasting_port()}", VERSION)
