"""Upgrading rooms."""

import asyncio
import contextlib

import pytest

from federation.events.room_event import RoomEvent
from federation.rooms.creation import InitialState
from tests.connectors.setup import BackendSetup, refused

STEPS = pytest.mark.parametrize(("before", "after"), [("10", "11"), ("11", "12"), ("12", "12")])


async def successors(backend_setup: BackendSetup, user: str, old: str) -> list[str]:
    """The user's rooms that name this one as their predecessor."""
    rooms = await backend_setup.side.joined_rooms(user)
    creates = {room: await backend_setup.state(room, "m.room.create") for room in rooms}
    return [room for room, said in creates.items() if said.get("predecessor", {}).get("room_id") == old]


class UpgradingBehaves:
    @STEPS
    async def test_upgrade(self, backend_setup: BackendSetup, before: str, after: str) -> None:
        """Aliases move, the old room has a tombstone and is muted, and people can follow."""
        alice, bob = await backend_setup.user("alice", "Alice"), await backend_setup.person()
        name = backend_setup.named_alias("kitchen")
        spam = f"@spam:{bob.server_name}"
        old = await backend_setup.room(
            alice,
            version=before,
            alias=name,
            listed=True,
            name=name,
            room_type="io.a2c.office",
            initial_state=[InitialState("io.a2c.office.agent", {"agent": alice})],
        )
        await backend_setup.come(bob, old)
        await backend_setup.side.ban(old, alice, spam)
        new = await backend_setup.side.upgrade_room(old, alice, after, also=["io.a2c.office.agent"])
        create = await backend_setup.state(new, "m.room.create")
        assert (create["room_version"], create["type"]) == (after, "io.a2c.office")
        assert create["predecessor"]["room_id"] == old
        assert await backend_setup.state(new, "m.room.name") == {"name": name}
        assert await backend_setup.state(new, "io.a2c.office.agent") == {"agent": alice}
        assert await backend_setup.side.membership(new, spam) == "ban"
        levels = await backend_setup.state(new, "m.room.power_levels")
        assert levels["events"]["m.room.tombstone"] == (150 if after == "12" else 100)
        assert (alice in levels["users"]) == (after != "12")
        found = await backend_setup.side.resolve_alias(backend_setup.alias(name))
        assert found is not None
        assert found[0] == new
        assert await backend_setup.state(new, "m.room.canonical_alias") == {"alias": backend_setup.alias(name)}
        assert not (await backend_setup.state(old, "m.room.canonical_alias") or {}).get("alias")
        listed = await bob.public_rooms(server=backend_setup.domain, search=name)
        assert [room["room_id"] for room in listed] == [new]
        tombstone = await bob.wait_for(lambda event: event["type"] == "m.room.tombstone", room_id=old)
        assert tombstone["content"]["replacement_room"] == new
        await bob.wait_for(lambda event: event["content"].get("events_default") == 50, room_id=old)
        await backend_setup.come(bob, new)

    async def test_upgrade_is_idempotent(self, backend_setup: BackendSetup) -> None:
        """Also after a restart."""
        alice = await backend_setup.user("alice")
        old = await backend_setup.room(alice, version="11", alias=backend_setup.named_alias("kitchen"))
        new = await backend_setup.side.upgrade_room(old, alice, "12")
        before = await backend_setup.events(old)
        assert await backend_setup.side.upgrade_room(old, alice, "12") == new
        async with backend_setup.again() as again:
            assert await again.upgrade_room(old, alice, "12") == new
        assert await backend_setup.events(old) == before
        assert await successors(backend_setup, alice, old) == [new]
        eve = await backend_setup.user("eve")
        await refused(backend_setup.side.upgrade_room(old, eve, "12"), "M_FORBIDDEN")

    @pytest.mark.parametrize("after", ["create", "tombstone"])
    async def test_interrupted_upgrade_is_completed(self, backend_setup: BackendSetup, after: str) -> None:
        """By repeating the call."""
        alice = await backend_setup.user("alice")
        name = backend_setup.named_alias("kitchen")
        old = await backend_setup.room(alice, version="11", alias=name)
        upgrading = asyncio.ensure_future(backend_setup.side.upgrade_room(old, alice, "12"))

        def is_begun(event: RoomEvent) -> bool:
            if after == "tombstone":
                return (event.type, event.room_id) == ("m.room.tombstone", old)
            return bool(event.content.get("predecessor", {}).get("room_id") == old)

        await backend_setup.until(is_begun)
        upgrading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await upgrading
        async with backend_setup.again() as again:
            new = await again.upgrade_room(old, alice, "12")
        assert await backend_setup.side.upgrade_room(old, alice, "12") == new
        found = await backend_setup.side.resolve_alias(backend_setup.alias(name))
        assert found is not None
        assert found[0] == new
        assert await backend_setup.state(new, "m.room.canonical_alias") == {"alias": backend_setup.alias(name)}
        assert (await backend_setup.state(old, "m.room.tombstone"))["replacement_room"] == new
        assert (await backend_setup.state(old, "m.room.power_levels"))["events_default"] == 50
        assert await successors(backend_setup, alice, old) == [new]

    async def test_upgrade_without_permission_creates_nothing(self, backend_setup: BackendSetup) -> None:
        """Permissions are checked first."""
        alice, eve = await backend_setup.user("alice"), await backend_setup.user("eve")
        old = await backend_setup.room(alice)
        await backend_setup.side.join(old, eve)
        await refused(backend_setup.side.upgrade_room(old, eve, "12"), "M_FORBIDDEN")
        for version in ("9", "x", ""):
            await refused(backend_setup.side.upgrade_room(old, alice, version), "M_UNSUPPORTED_ROOM_VERSION")
        for user in (alice, eve):
            assert await backend_setup.side.joined_rooms(user) == [old]
        await refused(backend_setup.side.upgrade_room(f"!no:{backend_setup.domain}", alice, "12"), "M_NOT_FOUND")

    async def test_additional_creators(self, backend_setup: BackendSetup) -> None:
        """In version 12 they are above all power levels."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        old = await backend_setup.room(alice, version="11")
        await backend_setup.come(bob, old)
        new = await backend_setup.side.upgrade_room(old, alice, "12", additional_creators=[bob.user_id])
        create = await backend_setup.state(new, "m.room.create")
        assert create["additional_creators"] == [bob.user_id]

    async def test_upgrade_raises_no_power(self, backend_setup: BackendSetup) -> None:
        """Up to version 11 power is only raised during the creation."""
        alice, eve = await backend_setup.user("alice"), await backend_setup.user("eve")
        old = await backend_setup.room(
            alice,
            version="10",
            power_levels={"users": {eve: 50}, "events": {"m.room.tombstone": 50}},
            history_visibility="joined",
        )
        await backend_setup.side.join(old, eve)
        new = await backend_setup.side.upgrade_room(old, eve, "11")
        levels = await backend_setup.state(new, "m.room.power_levels")
        assert levels["users"] == {alice: 100, eve: 50}
        assert await backend_setup.state(new, "m.room.history_visibility") == {"history_visibility": "joined"}

    async def test_references_follow(self, backend_setup: BackendSetup) -> None:
        """Spaces and restricted join rules, where the user has the power level."""
        alice = await backend_setup.user("alice")
        space = await backend_setup.room(alice, room_type="m.space")
        old = await backend_setup.room(alice, version="11")
        await backend_setup.side.add_to_space(space, old, alice, order="3")
        open_to = await backend_setup.room(alice, preset="private_chat", join_rule="restricted", allow=[old])
        new = await backend_setup.side.upgrade_room(old, alice, "12")
        assert (await backend_setup.state(space, "m.space.child", new))["order"] == "3"
        assert await backend_setup.state(space, "m.space.child", old) == {}
        rules = await backend_setup.state(open_to, "m.room.join_rules")
        assert new in [allowed["room_id"] for allowed in rules["allow"]]
