"""An operator's view of a node that federates with a real Synapse: metrics, commands, log."""

import asyncio
import json

import pytest

from tests.support.driven_node import DrivenNode
from tests.support.driven_node.walking import Sides, refused, shared_room

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("walk")]
MESSAGES = 20
FORKS = 20
TIMEOUT = 60.0

COUNTED = {
    "made": ("palaver_federation_events_made_total", {}),
    "accepted": ("palaver_federation_pdus_received_total", {"verdict": "accepted"}),
    "rejected": ("palaver_federation_pdus_received_total", {"verdict": "rejected"}),
    "dropped": ("palaver_federation_pdus_received_total", {"verdict": "dropped"}),
    "sent": ("palaver_federation_sent_total", {"kind": "pdu"}),
    "delivered": ("palaver_federation_queue_left_total", {"fate": "delivered"}),
    "transactions": ("palaver_federation_transaction_seconds_count", {"outcome": "answered"}),
    "resolutions": ("palaver_federation_state_resolution_seconds_count", {}),
    "asked": ("palaver_federation_request_seconds_count", {"outcome": "answered"}),
}


async def counted(node: DrivenNode) -> dict[str, float]:
    metrics = await node.metrics()
    return {name: metrics.sum(sample, **labels) for name, (sample, labels) in COUNTED.items()}


async def test_what_an_operator_sees(sides: Sides, quiet_node: DrivenNode) -> None:
    """Every event is counted in both directions, nothing stays queued, the commands agree, and the log has
    neither a warning nor a secret."""
    host, guest, _ = sides
    there = ({host.server_name, guest.server_name} - {quiet_node.server_name}).pop()
    before = await counted(quiet_node)
    room_id = await shared_room(host, guest)
    for number in range(MESSAGES):
        for speaker, hearer in ((host, guest), (guest, host)):
            await hearer.wait_for_event(await speaker.say(room_id, f"{number}"))
    # Both change the state at the same time until their changes have crossed.
    await guest.wait_for_event(await host.set_power_levels(room_id, users={guest.user_id: 50}))
    for number in range(FORKS):
        topics = await asyncio.gather(
            *(one.set_state(room_id, "m.room.topic", {"topic": f"{one.user_id} {number}"}) for one in (host, guest))
        )
        for hearer, topic in zip((guest, host), topics, strict=True):
            await hearer.wait_for_event(topic)
        after = await counted(quiet_node)
        if after["resolutions"] > before["resolutions"]:
            break
    await refused(guest.set_power_levels(room_id, users={guest.user_id: 100}))
    async with asyncio.timeout(TIMEOUT):
        # The commands look into the queues, the figures are those of a moment ago.
        while (await quiet_node.cli("queue"))[1]["pdus"]:
            await asyncio.sleep(0.1)
        while await quiet_node.metric("palaver_federation_queue_depth", destination=there, kind="pdu"):
            await asyncio.sleep(0.1)

    after = await counted(quiet_node)
    grown = {name: after[name] - before[name] for name in COUNTED}
    for name in ("made", "accepted", "sent", "delivered"):
        assert grown[name] > MESSAGES, name
    for name in ("transactions", "asked", "resolutions"):
        assert grown[name] > 0, name
    assert grown["rejected"] == grown["dropped"] == 0
    assert await quiet_node.metric("palaver_federation_key_fetches_total", outcome="answered") > 0

    code, status = await quiet_node.cli("status")
    assert (code, status["ready"], status["server_name"]) == (0, True, quiet_node.server_name)
    assert status["certificate"] == "configured"
    _, peers = await quiet_node.cli("peers", "list")
    [peer] = [one for one in peers["peers"] if one["server"] == there]
    assert (peer["failures"], peer["failure"], peer["admitted"]) == (0, None, True)
    assert peer["heard_at"] is not None
    _, audit = await quiet_node.cli("audit", "--room", room_id)
    assert {act["peer"] for act in audit["acts"]} == {there}
    direction = "out" if host.server_name == there else "in"
    acts = {(act["act"], act["direction"], act["outcome"]) for act in audit["acts"]}
    assert acts == {("make_join", direction, "done"), ("send_join", direction, "done"), ("transaction", "in", "done")}

    log = json.dumps([*quiet_node.logged_before, *quiet_node.log])
    [_, _, seed] = (quiet_node.data / "signing.key").read_text().split()
    assert seed not in log
