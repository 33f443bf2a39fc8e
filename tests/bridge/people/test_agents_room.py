"""The creation of agents' rooms."""

import pytest

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.room import alias, creation_request
from bridge.people.settings import PeopleSettings
from federation.rooms.creation import plan


@pytest.mark.parametrize("version", ["10", "11", "12"])
def test_the_room_can_be_created(version: str) -> None:
    """In each room version. Members cannot invite others."""
    settings = PeopleSettings(HomeserverGhostNames("here.test"), join_rule="knock", room_version=version)
    creation = plan(creation_request("default", settings), "here.test", opaque="x")
    assert creation.alias == alias("default", settings) == "#agents-default:here.test"
    state = {event.type: event.content for event in creation.events}
    assert state["io.palaver.agents"] == {"namespace": "default", "node": "here.test"}
    assert state["m.room.join_rules"] == {"join_rule": "knock"}
    assert state["m.room.power_levels"]["invite"] == 50
    assert state["m.room.name"] == {"name": "Agents of here.test"}
    assert "!agents help" in state["m.room.topic"]["topic"]


def test_each_namespace_has_its_own_room() -> None:
    """With its own name and key."""
    settings = PeopleSettings(HomeserverGhostNames("here.test"))
    one, other = (creation_request(name, settings) for name in ("default", "team"))
    assert one.key != other.key
    assert other.name == "Agents of here.test: team"
