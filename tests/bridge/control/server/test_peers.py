"""`palaver peers list` and `retry`."""

import asyncio

import pytest

from federation.client.peer_settings import PeerSettings
from federation.peers.policy import policy
from storage.errors import LocalError
from storage.federation.outbox import OutageRow, write_outage
from tests.bridge.control.server.conftest import Operator
from tests.bridge.control.server.test_queue import TIMEOUT, shared_room, until_backing_off


async def test_every_known_server_is_listed(operator: Operator) -> None:
    """From the configuration, from rooms and from outages; failing servers first, this node never."""
    await shared_room(operator)
    async with operator.node.database.transaction() as connection:
        await write_outage(connection, "down.test", OutageRow(5, 3, 9))
    listed = await operator.ask("peers-list")
    peers = {peer["server"]: peer for peer in listed["peers"]}
    assert (list(peers), listed["total"]) == (["down.test", "there.test"], 2)
    assert (peers["there.test"]["configured"], peers["there.test"]["rooms"]) == (True, 1)
    assert (peers["down.test"]["configured"], peers["down.test"]["admitted"]) == (False, True)
    assert peers["down.test"]["failing_since"] == 5
    assert [peer["server"] for peer in (await operator.ask("peers-list", search="THERE"))["peers"]] == ["there.test"]
    assert len((await operator.ask("peers-list", limit=1))["peers"]) == 1


async def test_server_names_are_compared_without_case(operator: Operator) -> None:
    """The list also shows servers that the policy does not admit."""
    await shared_room(operator)
    settings = operator.node.homeserver.settings
    object.__setattr__(settings, "peers", {"THERE.test": PeerSettings(), "new.test": PeerSettings()})
    object.__setattr__(settings, "policy", policy(["there.test"], is_open=False))
    peers = {peer["server"]: peer for peer in (await operator.ask("peers-list"))["peers"]}
    assert set(peers) == {"there.test", "new.test"}
    assert (peers["there.test"]["configured"], peers["new.test"]["admitted"]) == (True, False)


@pytest.mark.parametrize("how", [{"server": "there.test"}, {"all": True}])
async def test_a_server_is_retried_at_once(operator: Operator, how: dict[str, object]) -> None:
    """Without waiting for the end of the back-off."""
    here, there = operator.node, operator.there
    room_id = await shared_room(operator)
    there.is_down = True
    event = await here.say(room_id, here.user("alice"), "one")
    await until_backing_off(operator)
    # As after many failures, and without the five seconds that are between two attempts.
    schedule = here.outbox._senders["there.test"]._machine._schedule  # type: ignore[union-attr] # it runs
    schedule.retry_at += 3_600_000
    schedule._attempted_at -= 10_000
    there.is_down = False
    answer = await operator.ask("peers-retry", **how)
    assert answer == {"tried": [{"server": "there.test", "waiting": True}], "not_admitted": []}
    async with asyncio.timeout(TIMEOUT):
        await there.until(lambda event_id, _: event_id == event)


async def test_a_retry_that_is_not_possible_is_refused(operator: Operator) -> None:
    """Each reason has its own message."""
    for server, problem in {"no server": "is not a server name", "here.test": "is this node itself"}.items():
        with pytest.raises(LocalError, match=problem):
            await operator.ask("peers-retry", server=server)
    with pytest.raises(LocalError, match="Name a server"):
        await operator.ask("peers-retry")
    assert (await operator.ask("peers-retry", all=True))["tried"] == []
    assert (await operator.ask("peers-retry", server="idle.test"))["tried"] == [
        {"server": "idle.test", "waiting": False}
    ]
    object.__setattr__(operator.node.homeserver.settings, "policy", policy((), is_open=False))
    with pytest.raises(LocalError, match="does not allow federation with"):
        await operator.ask("peers-retry", server="there.test")
