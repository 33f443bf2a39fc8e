"""Upgrading rooms."""

import asyncio
import contextlib

import pytest

from federation.events.room_event import RoomEvent
from federation.rooms.creation import InitialState
from tests.connectors.setup import Ground, refused

STEPS = pytest.mark.parametrize(("before", "after"), [("10", "11"), ("11", "12"), ("12", "12")])


async def successors(ground: Ground, user: str, old: str) -> list[str]:
    """The user's rooms that name this one as their predecessor."""
    rooms = await ground.side.joined_rooms(user)
    creates = {room: await ground.state(room, "m.room.create") for room in rooms}
    return [room for room, said in creates.items() if said.get("predecessor", {}).get("room_id") == old]


class UpgradingBehaves:
    @STEPS
    async def test_upgrade(self, ground: Ground, before: str, after: str) -> None:
        """Aliases move, the old room has a tombstone and is muted, and people can follow."""
        alice, bob = await ground.user("alice", "Alice"), await ground.person()
        name = ground.named_alias("kitchen")
        spam = f"@spam:{bob.server_name}"
        old = await ground.room(
            alice,
            version=before,
            alias=name,
            listed=True,
            name=name,
            room_type="io.a2c.office",
            initial_state=[InitialState("io.a2c.office.agent", {"agent": alice})],
        )
        await ground.come(bob, old)
        await ground.side.ban(old, alice, spam)
        new = await ground.side.upgrade_room(old, alice, after, also=["io.a2c.office.agent"])
        create = await ground.state(new, "m.room.create")
        assert (create["room_version"], create["type"]) == (after, "io.a2c.office")
        assert create["predecessor"]["room_id"] == old
        assert await ground.state(new, "m.room.name") == {"name": name}
        assert await ground.state(new, "io.a2c.office.agent") == {"agent": alice}
        assert await ground.side.membership(new, spam) == "ban"
        levels = await ground.state(new, "m.room.power_levels")
        assert levels["events"]["m.room.tombstone"] == (150 if after == "12" else 100)
        assert (alice in levels["users"]) == (after != "12")
        found = await ground.side.resolve_alias(ground.alias(name))
        assert found is not None
        assert found[0] == new
        assert await ground.state(new, "m.room.canonical_alias") == {"alias": ground.alias(name)}
        assert not (await ground.state(old, "m.room.canonical_alias") or {}).get("alias")
        listed = await bob.public_rooms(server=ground.domain, search=name)
        assert [room["room_id"] for room in listed] == [new]
        tombstone = await bob.wait_for(lambda event: event["type"] == "m.room.tombstone", room_id=old)
        assert tombstone["content"]["replacement_room"] == new
        await bob.wait_for(lambda event: event["content"].get("events_default") == 50, room_id=old)
        await ground.come(bob, new)

    async def test_upgrade_is_idempotent(self, ground: Ground) -> None:
        """Also after a restart."""
        alice = await ground.user("alice")
        old = await ground.room(alice, version="11", alias=ground.named_alias("kitchen"))
        new = await ground.side.upgrade_room(old, alice, "12")
        before = await ground.events(old)
        assert await ground.side.upgrade_room(old, alice, "12") == new
        async with ground.again() as again:
            assert await again.upgrade_room(old, alice, "12") == new
        assert await ground.events(old) == before
        assert await successors(ground, alice, old) == [new]
        eve = await ground.user("eve")
        await refused(ground.side.upgrade_room(old, eve, "12"), "M_FORBIDDEN")

    @pytest.mark.parametrize("after", ["create", "tombstone"])
    async def test_interrupted_upgrade_is_completed(self, ground: Ground, after: str) -> None:
        """By repeating the call."""
        alice = await ground.user("alice")
        name = ground.named_alias("kitchen")
        old = await ground.room(alice, version="11", alias=name)
        upgrading = asyncio.ensure_future(ground.side.upgrade_room(old, alice, "12"))

        def is_begun(event: RoomEvent) -> bool:
            if after == "tombstone":
                return (event.type, event.room_id) == ("m.room.tombstone", old)
            return bool(event.content.get("predecessor", {}).get("room_id") == old)

        await ground.until(is_begun)
        upgrading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await upgrading
        async with ground.again() as again:
            new = await again.upgrade_room(old, alice, "12")
        assert await ground.side.upgrade_room(old, alice, "12") == new
        found = await ground.side.resolve_alias(ground.alias(name))
        assert found is not None
        assert found[0] == new
        assert await ground.state(new, "m.room.canonical_alias") == {"alias": ground.alias(name)}
        assert (await ground.state(old, "m.room.tombstone"))["replacement_room"] == new
        assert (await ground.state(old, "m.room.power_levels"))["events_default"] == 50
        assert await successors(ground, alice, old) == [new]

    async def test_upgrade_without_permission_creates_nothing(self, ground: Ground) -> None:
        """Permissions are checked first."""
        alice, eve = await ground.user("alice"), await ground.user("eve")
        old = await ground.room(alice)
        await ground.side.join(old, eve)
        await refused(ground.side.upgrade_room(old, eve, "12"), "M_FORBIDDEN")
        for version in ("9", "x", ""):
            await refused(ground.side.upgrade_room(old, alice, version), "M_UNSUPPORTED_ROOM_VERSION")
        for user in (alice, eve):
            assert await ground.side.joined_rooms(user) == [old]
        await refused(ground.side.upgrade_room(f"!no:{ground.domain}", alice, "12"), "M_NOT_FOUND")

    async def test_additional_creators(self, ground: Ground) -> None:
        """In version 12 they are above all power levels."""
        alice, bob = await ground.user("alice"), await ground.person()
        old = await ground.room(alice, version="11")
        await ground.come(bob, old)
        new = await ground.side.upgrade_room(old, alice, "12", additional_creators=[bob.user_id])
        create = await ground.state(new, "m.room.create")
        assert create["additional_creators"] == [bob.user_id]

    async def test_upgrade_raises_no_power(self, ground: Ground) -> None:
        """Up to version 11 power is only raised during the creation."""
        alice, eve = await ground.user("alice"), await ground.user("eve")
        old = await ground.room(
            alice,
            version="10",
            power_levels={"users": {eve: 50}, "events": {"m.room.tombstone": 50}},
            history_visibility="joined",
        )
        await ground.side.join(old, eve)
        new = await ground.side.upgrade_room(old, eve, "11")
        levels = await ground.state(new, "m.room.power_levels")
        assert levels["users"] == {alice: 100, eve: 50}
        assert await ground.state(new, "m.room.history_visibility") == {"history_visibility": "joined"}

    async def test_references_follow(self, ground: Ground) -> None:
        """Spaces and restricted join rules, where the user has the power level."""
        alice = await ground.user("alice")
        space = await ground.room(alice, room_type="m.space")
        old = await ground.room(alice, version="11")
        await ground.side.add_to_space(space, old, alice, order="3")
        open_to = await ground.room(alice, preset="private_chat", join_rule="restricted", allow=[old])
        new = await ground.side.upgrade_room(old, alice, "12")
        assert (await ground.state(space, "m.space.child", new))["order"] == "3"
        assert await ground.state(space, "m.space.child", old) == {}
        rules = await ground.state(open_to, "m.room.join_rules")
        assert new in [allowed["room_id"] for allowed in rules["allow"]]
