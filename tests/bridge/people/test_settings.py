"""What the configuration says of people and agents."""

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.permissions import Level
from bridge.people.settings import PeopleSettings


def test_the_node_speaks_as_a_user_of_its_own() -> None:
    """And everybody may look, nobody more, unless it is said."""
    settings = PeopleSettings(HomeserverGhostNames("here.test:7676"))
    assert settings.node_user == "@palaver:here.test:7676"
    assert settings.rights.of("@alice:there.test").level is Level.LOOK
