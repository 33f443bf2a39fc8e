"""`PUT …/exchange_third_party_invite/{roomId}` and `PUT …/3pid/onbind`."""

import pytest

from federation.http.endpoints import membership as third_party_invites
from tests.federation.http.running import running

V1 = "/_matrix/federation/v1"


@pytest.mark.parametrize("path", [f"{V1}/exchange_third_party_invite/!r:a.example", f"{V1}/3pid/onbind"])
async def test_third_party_invites_are_not_supported(path: str) -> None:
    """404 M_UNRECOGNIZED."""
    async with running(routes=third_party_invites.ROUTES) as node, await node.connect() as client:
        answer = await client.ask(path, method="PUT", body=b"{}")
        assert (answer.status, answer.json["errcode"]) == (404, "M_UNRECOGNIZED")
        assert (await client.ask(path)).status == 405
