"""The room of a namespace."""

import pytest

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.place import alias, request_for
from bridge.people.settings import PeopleSettings
from federation.rooms.creation import plan


@pytest.mark.parametrize("version", ["10", "11", "12"])
def test_it_can_be_made(version: str) -> None:
    """In each version, with its name, and so that others cannot bring in whom they like."""
    settings = PeopleSettings(HomeserverGhostNames("here.test"), join_rule="knock", room_version=version)
    creation = plan(request_for("default", settings), "here.test", opaque="x")
    assert creation.alias == alias("default", settings) == "#agents-default:here.test"
    state = {event.type: event.content for event in creation.events}
    assert state["io.palaver.agents"] == {"namespace": "default", "node": "here.test"}
    assert state["m.room.join_rules"] == {"join_rule": "knock"}
    assert state["m.room.power_levels"]["invite"] == 50
    assert state["m.room.name"] == {"name": "Agents of here.test"}
    assert "!agents help" in state["m.room.topic"]["topic"]


def test_each_namespace_has_its_own() -> None:
    """Found again by its name."""
    settings = PeopleSettings(HomeserverGhostNames("here.test"))
    one, other = (request_for(name, settings) for name in ("default", "team"))
    assert one.key != other.key
    assert other.name == "Agents of here.test: team"
