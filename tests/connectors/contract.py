"""The contract: everything that the bridge relies on, on either backend. A test module provides the fixtures
`backend_setup` and `portal`, and a subclass of `Contract`."""

from tests.connectors.behaviours.media import MediaBehave
from tests.connectors.behaviours.memberships import MembershipsBehave
from tests.connectors.behaviours.portals import PortalsBehave
from tests.connectors.behaviours.presences import PresencesBehave
from tests.connectors.behaviours.reading import ReadingBehaves
from tests.connectors.behaviours.room_making import RoomMakingBehaves
from tests.connectors.behaviours.sending import SendingBehaves
from tests.connectors.behaviours.spaces import SpacesBehave
from tests.connectors.behaviours.stream import StreamBehaves
from tests.connectors.behaviours.upgrading import UpgradingBehaves
from tests.connectors.behaviours.users import UsersBehave

CHAPTERS = (
    UsersBehave,
    RoomMakingBehaves,
    UpgradingBehaves,
    MembershipsBehave,
    SendingBehaves,
    SpacesBehave,
    ReadingBehaves,
    PresencesBehave,
    MediaBehave,
    StreamBehaves,
    PortalsBehave,
)


class Contract(
    UsersBehave,
    RoomMakingBehaves,
    UpgradingBehaves,
    MembershipsBehave,
    SendingBehaves,
    SpacesBehave,
    ReadingBehaves,
    PresencesBehave,
    MediaBehave,
    StreamBehaves,
    PortalsBehave,
):
    """All behaviours."""


NAMES = [name for chapter in CHAPTERS for name in vars(chapter) if name.startswith("test_")]
# Otherwise one would replace the other.
assert len(NAMES) == len(set(NAMES)), "two behaviours have one name"
