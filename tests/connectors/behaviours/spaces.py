"""Spaces and server ACLs."""

from typing import Any

from tests.connectors.setup import Ground, refused


class SpacesBehave:
    async def test_add_and_remove(self, ground: Ground) -> None:
        """Both rooms have the state; both operations are idempotent."""
        alice = await ground.user("alice")
        space = await ground.room(alice, room_type="m.space")
        room_id = await ground.room(alice)
        side = ground.side
        for _ in range(2):
            await side.add_to_space(space, room_id, alice, order="1", suggested=True)
        assert await ground.state(space, "m.space.child", room_id) == {
            "via": [ground.domain],
            "order": "1",
            "suggested": True,
        }
        assert await ground.state(room_id, "m.space.parent", space) == {"via": [ground.domain]}
        for _ in range(2):
            await side.remove_from_space(space, room_id, alice)
        assert await ground.state(space, "m.space.child", room_id) == {}
        assert await ground.state(room_id, "m.space.parent", space) == {}
        for room, type_ in ((space, "m.space.child"), (room_id, "m.space.parent")):
            told = [event for event in await ground.events(room) if event.type == type_]
            assert len(told) == 2

    async def test_space_child_is_sufficient(self, ground: Ground) -> None:
        """For rooms that the user cannot change, or that are unknown; the power level in the space is
        required."""
        alice, eve, bob = await ground.user("alice"), await ground.user("eve"), await ground.person()
        side = ground.side
        space, room_id = await ground.room(alice, room_type="m.space"), await ground.room(eve)
        unknown = f"!elsewhere:{bob.server_name}"
        await side.add_to_space(space, room_id, alice)
        await side.add_to_space(space, unknown, alice)
        assert await ground.state(room_id, "m.space.parent", space) is None
        children = await side.state(space, "m.space.child")
        assert {event.state_key for event in children} == {room_id, unknown}
        await refused(side.add_to_space(space, room_id, eve, order="1"), "M_FORBIDDEN")
        await refused(side.remove_from_space(space, room_id, eve), "M_FORBIDDEN")

    async def test_people_browse_the_space(self, ground: Ground) -> None:
        """And find its rooms."""
        alice, bob = await ground.user("alice"), await ground.person()
        space = await ground.room(alice, room_type="m.space", name="House")
        room_id = await ground.room(alice, name="Kitchen")
        await ground.side.add_to_space(space, room_id, alice, suggested=True)
        await ground.come(bob, space)
        found = await bob.hierarchy(space)
        assert [(room["room_id"], room["name"]) for room in found] == [
            (space, "House"),
            (room_id, "Kitchen"),
        ]

    async def test_acl_must_admit_the_own_server(self, ground: Ground) -> None:
        """Others are refused."""
        alice = await ground.user("alice")
        room_id = await ground.room(alice)
        side = ground.side
        assert await side.server_acl(room_id) is None
        for _ in range(2):
            await side.set_server_acl(room_id, alice, deny=["evil.example"])
        acl = await side.server_acl(room_id)
        assert acl == {"allow": ["*"], "deny": ["evil.example"], "allow_ip_literals": True}
        server = ground.domain.partition(":")[0]
        shutting: list[dict[str, Any]] = [
            {"deny": ["*"]}, {"deny": [server]}, {"allow": ["other.example"]}, {"allow": []},
        ]  # fmt: skip
        for shut in shutting:
            await refused(side.set_server_acl(room_id, alice, **shut), "M_INVALID_PARAM")
        assert await side.server_acl(room_id) == acl
        await refused(
            side.set_server_acl(room_id, await ground.user("eve"), deny=["good.example"]), "M_FORBIDDEN"
        )
