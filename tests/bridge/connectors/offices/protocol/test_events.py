"""The protocol's events."""

from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, UPDATES
from bridge.connectors.offices.protocol.versions import Line


def test_each_update_has_its_notice() -> None:
    """Of a Computer, to the others in its office."""
    assert UPDATES == {
        "server:update_config": "notify:update_config",
        "server:update_tool_list": "notify:update_tool_list",
        "server:update_desktop": "notify:update_desktop",
        "server:update_skills": "notify:update_skills",
    }


def test_what_came_later_is_known_to_be_later() -> None:
    """0.1 has four, 0.2 added four, 0.4 one."""
    since = [event.since for event in CLIENT_EVENTS.values()]
    assert (since.count(None), since.count(Line(0, 2)), since.count(Line(0, 4))) == (4, 4, 1)
