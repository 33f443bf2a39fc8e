"""Against our node, and briefly; with a Synapse in `test_measured.py`."""

import dataclasses
import json

import pytest

from bench._federation.load_generator import Settings, settings_of
from bench._federation.measured import NodeSettings, SynapseSettings
from tests.bench._federation.conftest import ROOMS, Stage


@pytest.mark.parametrize(("rooms", "origins"), [(1, 1), (ROOMS, 1), (ROOMS, 2), (1, 2)])
async def test_all_that_is_sent_can_be_read_in_the_end(stage: Stage, rooms: int, origins: int) -> None:
    """Of one room, of several, from one server and from more; again and again in the same rooms."""
    found = await stage.ask("node", "load", rooms=rooms, origins=origins, seconds=0.2, events=200)
    assert 50 <= found["events"] <= 200
    assert found["seconds"] > 0
    assert 0 <= found["server_cpu"] < 60
    assert 0 <= found["postgres_cpu"] < 60


async def test_each_event_of_an_unhurried_load_is_timed(stage: Stage) -> None:
    """One after the other."""
    found = await stage.ask("node", "latency", rate=100.0, seconds=0.05)
    assert len(found["seconds"]) == 5
    assert min(found["seconds"]) > 0


async def test_a_join_is_over_when_every_member_is_known(stage: Stage) -> None:
    """Each time it is another room."""
    for _ in range(2):
        found = await stage.ask("node", "join", members=30)
        assert 0 < found["joined"] <= found["complete"]


def test_the_settings_arrive_as_they_were_sent() -> None:
    """As one argument of a command."""
    settings = Settings(
        ["localhost:1"],
        "server.pem",
        "server.key",
        "ca.pem",
        SynapseSettings("localhost:2", "@reader:localhost:2", "token", 3, 4),
        NodeSettings("localhost:5", "node.socket", 6, 7),
    )
    assert settings_of(json.loads(json.dumps(dataclasses.asdict(settings)))) == settings
