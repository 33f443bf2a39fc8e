"""Settings for people."""

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.permissions import Level
from bridge.people.settings import PeopleSettings


def test_the_defaults() -> None:
    """The node has its own user, and everybody has the permission to look."""
    settings = PeopleSettings(HomeserverGhostNames("here.test:7676"))
    assert settings.node_user == "@palaver:here.test:7676"
    assert settings.rights.of("@alice:there.test").level is Level.LOOK
