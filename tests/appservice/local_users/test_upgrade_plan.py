"""The steps of an upgrade."""

import pytest

from appservice.local_users.create_room import MARKER
from appservice.local_users.upgrade import aliases_in, new_canonical_alias, upgrade_steps
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.events import CREATE
from federation.events.room_event import RoomEvent
from federation.matrix.room_version import ROOM_VERSIONS
from federation.rooms.upgrade import OldRoom, plan

COOK, EVE = "@_agent_cook:their.server", "@_agent_eve:their.server"


def said(type_: str, state_key: str = "", sender: str = COOK, **content: object) -> RoomEvent:
    return RoomEvent("$x", "!old", sender, type_, content, 1, state_key)


STATE = {
    CREATE: said("m.room.create", room_version="10", creator=COOK, **{MARKER: "old"}),
    POWER_LEVELS: said("m.room.power_levels", users={COOK: 100, EVE: 50}),
    ("m.room.name", ""): said("m.room.name", name="Kitchen"),
    ("m.room.canonical_alias", ""): said("m.room.canonical_alias", alias="#a:their.server"),
    ("m.room.member", "@spam:x"): said("m.room.member", "@spam:x", membership="ban", reason="spam"),
}


@pytest.mark.parametrize("version", ["11", "12"])
def test_same_room_as_the_homeserver_backend(version: str) -> None:
    """Power levels are only raised during the creation; aliases and bans follow later."""
    planned = plan(OldRoom("!old", ROOM_VERSIONS["10"], STATE, "$last"), EVE, version, profile={})
    move = upgrade_steps(planned, EVE, "mark", listed=True)
    body = move.room_plan.body
    assert (body["room_version"], body["visibility"]) == (version, "public")
    assert body["creation_content"][MARKER] == "mark"
    assert body["creation_content"]["predecessor"]["room_id"] == "!old"
    assert "room_alias_name" not in body
    made = {one["type"]: one["content"] for one in body["initial_state"]}
    assert made["m.room.name"] == {"name": "Kitchen"}
    assert made.keys() == {"m.room.power_levels", "m.room.name"}
    assert made["m.room.power_levels"] == body["power_level_content_override"] == move.room_plan.power_levels
    assert [(ban.state_key, ban.content) for ban in move.bans] == [("@spam:x", {"membership": "ban", "reason": "spam"})]
    if version == "12":
        assert move.levels == move.room_plan.power_levels
        assert move.levels["users"] == {COOK: 100}
    else:
        assert move.room_plan.power_levels == {"users": {EVE: 100}}
        assert move.levels["users"] == {COOK: 100, EVE: 50}


def test_new_canonical_alias_has_moved_aliases() -> None:
    """Whatever the old event contains."""
    alias = said("m.room.canonical_alias", alias="#a:x", alt_aliases=["#b:x", 7, "#a:x", "#c:y"])
    assert aliases_in(alias) == ["#a:x", "#b:x", "#c:y"]
    assert new_canonical_alias(alias, ["#a:x", "#b:x"]) == {"alias": "#a:x", "alt_aliases": ["#b:x"]}
    assert new_canonical_alias(alias, ["#b:x"]) == {"alt_aliases": ["#b:x"]}
    assert new_canonical_alias(alias, ["#a:x", "#elsewhere:x"]) == {"alias": "#a:x"}
    assert new_canonical_alias(alias, []) is None
    assert new_canonical_alias(None, ["#a:x"]) is None
    for strange in (said("m.room.canonical_alias", alt_aliases={}), said("m.room.canonical_alias"), None):
        assert aliases_in(strange) == []
