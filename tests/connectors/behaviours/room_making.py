"""Creating rooms, aliases and directory entries."""

import asyncio
from typing import Any

import pytest

from federation.matrix.capabilities import BackendCapability
from federation.rooms.creation import CreateRoomRequest, InitialState
from tests.connectors.backend_differences import Difference
from tests.connectors.setup import BackendSetup, refused

EVERY_VERSION = pytest.mark.parametrize("version", ["10", "11", "12"])


class RoomMakingBehaves:
    @EVERY_VERSION
    async def test_create_room(self, backend_setup: BackendSetup, version: str) -> None:
        """Local users and people are invited; unknown users are reported."""
        alice, eve = await backend_setup.user("alice", "Alice"), await backend_setup.user("eve", "Eve")
        bob, nobody = await backend_setup.person(), backend_setup.nobody()
        name = backend_setup.named_alias("kitchen")
        made = await backend_setup.side.create_room(
            CreateRoomRequest(
                creator=alice,
                version=version,
                name="Kitchen",
                topic="Soup",
                alias=name,
                listed=True,
                room_type="io.a2c.office",
                invite=[eve, bob.user_id, nobody],
                initial_state=[InitialState("io.x", {"a": [1, {"b": None}]}), InitialState("io.x", {}, "k")],
                power_levels={"events": {"io.x": 30}, "users": {eve: 50}},
                creation_content={"io.y": "z"},
                history_visibility="invited",
            )
        )
        assert made.is_new
        assert made.not_invited.keys() == {nobody}
        assert all(made.not_invited.values())
        room_id = made.room_id
        create = await backend_setup.state(room_id, "m.room.create")
        assert (create["room_version"], create["type"], create["io.y"]) == (version, "io.a2c.office", "z")
        assert await backend_setup.state(room_id, "m.room.name") == {"name": "Kitchen"}
        topic = await backend_setup.state(room_id, "m.room.topic")
        assert topic["topic"] == "Soup"
        assert await backend_setup.state(room_id, "io.x") == {"a": [1, {"b": None}]}
        assert await backend_setup.state(room_id, "io.x", "k") == {}
        assert await backend_setup.state(room_id, "m.room.history_visibility") == {"history_visibility": "invited"}
        assert await backend_setup.state(room_id, "m.room.join_rules") == {"join_rule": "invite"}
        assert await backend_setup.state(room_id, "m.room.canonical_alias") == {"alias": backend_setup.alias(name)}
        levels = await backend_setup.state(room_id, "m.room.power_levels")
        assert levels["events"]["io.x"] == 30
        # Creators of version 12 are above all power levels and not listed in them.
        assert levels["users"] == ({eve: 50} if version == "12" else {alice: 100, eve: 50})
        assert await backend_setup.state(room_id, "m.room.member", alice) == {
            "membership": "join",
            "displayname": "Alice",
        }
        invited = await backend_setup.state(room_id, "m.room.member", eve)
        assert (invited["membership"], invited["displayname"]) == ("invite", "Eve")
        assert await backend_setup.side.membership(room_id, bob.user_id) == "invite"
        found = await backend_setup.side.resolve_alias(backend_setup.alias(name))
        assert found is not None
        assert (found[0], backend_setup.domain in found[1]) == (room_id, True)
        shown = await bob.wait_for_invite(room_id)
        assert {"m.room.create", "m.room.name"} <= {one["type"] for one in shown}
        assert await bob.join(backend_setup.alias(name)) == room_id

    @EVERY_VERSION
    async def test_both_backends_create_the_same_room(self, backend_setup: BackendSetup, version: str) -> None:
        """Entry by entry."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice, version=version, preset="private_chat", name="Kitchen")
        state = {(event.type, event.state_key): event.content for event in await backend_setup.side.state(room_id)}
        create = dict(state.pop(("m.room.create", "")))
        assert create.pop("room_version") == version
        assert create.pop("creator", None) == (alice if version == "10" else None)
        assert create == {}
        levels: dict[str, Any] = dict(state.pop(("m.room.power_levels", "")))
        assert levels.pop("users") == ({} if version == "12" else {alice: 100})
        assert levels == {
            "ban": 50,
            "events": {
                "m.room.avatar": 50,
                "m.room.canonical_alias": 50,
                "m.room.encryption": 100,
                "m.room.history_visibility": 100,
                "m.room.name": 50,
                "m.room.power_levels": 100,
                "m.room.server_acl": 100,
                "m.room.tombstone": 150 if version == "12" else 100,
            },
            "events_default": 0,
            "invite": 0,
            "kick": 50,
            "redact": 50,
            "state_default": 50,
            "users_default": 0,
        }
        member = {"membership": "join"}
        if Difference.NAMED_AT_BIRTH in backend_setup.differences:
            member["displayname"] = alice[1:].partition(":")[0]
        assert state == {
            ("m.room.member", alice): member,
            ("m.room.join_rules", ""): {"join_rule": "invite"},
            ("m.room.history_visibility", ""): {"history_visibility": "shared"},
            ("m.room.guest_access", ""): {"guest_access": "can_join"},
            ("m.room.name", ""): {"name": "Kitchen"},
        }

    async def test_key_finds_the_existing_room(self, backend_setup: BackendSetup) -> None:
        """After a kill, by another process, and by two at once. Keys are per creator."""
        alice, eve = await backend_setup.user("alice"), await backend_setup.user("eve")
        name = backend_setup.named_alias("delegations")
        request = CreateRoomRequest(creator=alice, key="delegations", alias=name)
        async with backend_setup.again() as again:
            made = await asyncio.gather(*(side.create_room(request) for side in (backend_setup.side, again) * 2))
            assert len({one.room_id for one in made}) == 1
            assert [one.is_new for one in made].count(True) == 1
            assert (await again.create_room(request)).is_new is False
        later = await backend_setup.side.create_room(request)
        assert (later.room_id, later.is_new) == (made[0].room_id, False)
        other = await backend_setup.side.create_room(CreateRoomRequest(creator=eve, key="delegations"))
        assert other.room_id != later.room_id
        # No superfluous room is left.
        assert await backend_setup.side.joined_rooms(alice) == [later.room_id]

    async def test_taken_alias_leaves_nothing(self, backend_setup: BackendSetup) -> None:
        """Detected before and during the creation."""
        alice = await backend_setup.user("alice")
        name, other = backend_setup.named_alias("kitchen"), backend_setup.named_alias("cellar")
        first = await backend_setup.room(alice, alias=name)
        await refused(backend_setup.room(alice, alias=name), "M_ROOM_IN_USE")
        results = await asyncio.gather(
            *(backend_setup.room(alice, alias=other) for _ in range(3)), return_exceptions=True
        )
        made = [one for one in results if isinstance(one, str)]
        assert len(made) == 1
        assert sorted(await backend_setup.side.joined_rooms(alice)) == sorted([first, *made])

    async def test_declined_invite_is_not_repeated(self, backend_setup: BackendSetup) -> None:
        """Also on another request for the room. Invites to direct chats have `is_direct`."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        request = CreateRoomRequest(creator=alice, key="k", invite=[bob.user_id], is_direct=True)
        made = await backend_setup.side.create_room(request)
        invited = await backend_setup.state(made.room_id, "m.room.member", bob.user_id)
        assert (invited["membership"], invited["is_direct"]) == ("invite", True)
        await bob.wait_for_invite(made.room_id)
        await bob.leave(made.room_id)
        await backend_setup.until_member(made.room_id, bob.user_id, "leave")
        again = await backend_setup.side.create_room(request)
        assert (again.room_id, again.not_invited) == (made.room_id, {})
        assert await backend_setup.side.membership(made.room_id, bob.user_id) == "leave"

    @pytest.mark.parametrize("version", ["11", "12"])
    async def test_trusted_users_have_full_power(self, backend_setup: BackendSetup, version: str) -> None:
        """By power levels, or from version 12 on as additional creators."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        room_id = await backend_setup.room(alice, version=version, preset="trusted_private_chat", invite=[bob.user_id])
        await bob.wait_for_invite(room_id)
        await backend_setup.come(bob, room_id)
        topic = await bob.set_state(room_id, "m.room.topic", {"topic": "Soup"})
        levels = {**await bob.state(room_id, "m.room.power_levels"), "events_default": 1}
        changed = await bob.set_state(room_id, "m.room.power_levels", levels)
        for event_id in (topic, changed):
            await backend_setup.until_event(event_id)

    async def test_restricted_room(self, backend_setup: BackendSetup) -> None:
        """To no one else."""
        alice, eve, fay = [await backend_setup.user(name) for name in ("alice", "eve", "fay")]
        office = await backend_setup.room(alice)
        await backend_setup.side.join(office, eve)
        room_id = await backend_setup.room(alice, preset="private_chat", join_rule="restricted", allow=[office])
        assert await backend_setup.side.join(room_id, eve) == room_id
        await refused(backend_setup.side.join(room_id, fay), "M_FORBIDDEN")
        bob = await backend_setup.person()
        await backend_setup.come(bob, office)
        await backend_setup.come(bob, room_id)

    async def test_chosen_room_id(self, backend_setup: BackendSetup) -> None:
        """Up to version 11; refused without the capability."""
        alice, name = await backend_setup.user("alice"), backend_setup.named("agent-broadcast")
        wanted = {"version": "11", "room_id": name}
        if BackendCapability.ROOM_IDS in backend_setup.side.capabilities:
            room_id = await backend_setup.room(alice, **wanted)
            assert room_id == f"!{name}:{backend_setup.domain}"
            await refused(backend_setup.room(alice, **wanted), "M_ROOM_IN_USE")
        else:
            await refused(backend_setup.room(alice, **wanted), "M_UNRECOGNIZED")
            assert await backend_setup.side.joined_rooms(alice) == []

    async def test_invalid_requests_are_refused(self, backend_setup: BackendSetup) -> None:
        """Nothing is left behind."""
        alice = await backend_setup.user("alice")
        await refused(backend_setup.room(backend_setup.nobody()), "M_NOT_FOUND")
        for wrong, errcode in (
            ({"key": "a\0b"}, "M_INVALID_PARAM"),
            ({"key": "x" * 256}, "M_INVALID_PARAM"),
            ({"version": "9"}, "M_UNSUPPORTED_ROOM_VERSION"),
            ({"version": "0x"}, "M_UNSUPPORTED_ROOM_VERSION"),
            ({"alias": "a b\0"}, "M_INVALID_PARAM"),
            ({"alias": "x" * 300}, "M_INVALID_PARAM"),
            ({"name": "x" * 70_000}, "M_BAD_JSON"),
            ({"initial_state": [InitialState("m.room.encryption", {"algorithm": "x"})]}, "M_INVALID_PARAM"),
        ):
            await refused(backend_setup.room(alice, **wrong), errcode)
        assert await backend_setup.side.joined_rooms(alice) == []

    async def test_aliases(self, backend_setup: BackendSetup) -> None:
        """Idempotent, and never moved from another room."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        room_id, other = await backend_setup.room(alice), await backend_setup.room(alice)
        alias = backend_setup.alias(backend_setup.named_alias("a"))
        assert await backend_setup.side.resolve_alias(alias) is None
        for _ in range(2):
            await backend_setup.side.create_alias(alias, room_id, alice)
        found = await backend_setup.side.resolve_alias(alias)
        assert found is not None
        assert found[0] == room_id
        await refused(backend_setup.side.create_alias(alias, other, alice), "M_ROOM_IN_USE")
        assert await bob.join(alias) == room_id
        for _ in range(2):
            await backend_setup.side.remove_alias(alias)
        assert await backend_setup.side.resolve_alias(alias) is None
        for wrong in ("#a", "a", "", "#\0:x", f"!a:{backend_setup.domain}"):
            await refused(backend_setup.side.resolve_alias(wrong), "M_INVALID_PARAM")
        for wrong in ("#a", f"#{'x' * 300}:{backend_setup.domain}"):
            await refused(backend_setup.side.create_alias(wrong, room_id, alice), "M_INVALID_PARAM")

    async def test_directory(self, backend_setup: BackendSetup) -> None:
        """Idempotent."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        name = backend_setup.named("Kitchen")
        room_id = await backend_setup.room(alice, name=name, listed=True)
        cellar = await backend_setup.room(alice, name=f"{name}, the cellar")

        async def listed() -> set[str]:
            found = await bob.public_rooms(server=backend_setup.domain, search=name)
            return {room["room_id"] for room in found}

        assert await listed() == {room_id}
        for _ in range(2):
            await backend_setup.side.publish(cellar, published=True)
            await backend_setup.side.publish(room_id, published=False)
        assert await listed() == {cellar}
