"""The protocol's events."""

from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, UPDATES
from bridge.connectors.offices.protocol.versions import ProtocolLine


def test_each_update_has_a_notification() -> None:
    """A Computer sends the update, the other members of its office receive the notification."""
    assert UPDATES == {
        "server:update_config": "notify:update_config",
        "server:update_tool_list": "notify:update_tool_list",
        "server:update_desktop": "notify:update_desktop",
        "server:update_skills": "notify:update_skills",
    }


def test_events_name_the_version_that_added_them() -> None:
    """0.1 has four, 0.2 added four, 0.4 added one."""
    since = [event.since for event in CLIENT_EVENTS.values()]
    assert (since.count(None), since.count(ProtocolLine(0, 2)), since.count(ProtocolLine(0, 4))) == (4, 4, 1)
