"""Our node and a Synapse, each treated as in a run."""

import pytest

from tests.bench._federation.conftest import Stage
from tests.support.synapse import Synapse


async def test_our_node_tells_what_its_user_said(stage: Stage) -> None:
    """Each message once, in the order in which it can be read."""
    await stage.node.read(at_leisure=False)
    room_id = await stage.node.create()
    assert await stage.node.members(room_id) == 1
    said = await stage.node.say(room_id, rate=200.0, seconds=0.05)
    assert len(said.event_ids) == 10
    seen: list[str] = []
    while not set(said.event_ids) <= set(seen):
        seen += await stage.node.read(at_leisure=False)
    assert [event_id for event_id in seen if event_id in said.event_ids] == list(said.event_ids)


@pytest.mark.interop
async def test_a_synapse_is_measured_as_our_node_is(stage: Stage, synapse: Synapse) -> None:
    """It joins, it is sent to, and a user of it reads."""
    measured = await stage.measure(synapse)
    try:
        load = await stage.ask("synapse", "load", rooms=2, origins=2, seconds=0.1, events=20)
        assert load["events"] == 20
        latency = await stage.ask("synapse", "latency", rate=20.0, seconds=0.1)
        assert len(latency["seconds"]) == 2
        joined = await stage.ask("synapse", "join", members=110)
        assert 0 < joined["joined"] <= joined["complete"]
    finally:
        await measured.close()
