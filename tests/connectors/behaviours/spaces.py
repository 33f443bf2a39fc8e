"""Spaces and server ACLs."""

from typing import Any

from tests.connectors.setup import BackendSetup, refused


class SpacesBehave:
    async def test_add_and_remove(self, backend_setup: BackendSetup) -> None:
        """Both rooms have the state; both operations are idempotent."""
        alice = await backend_setup.user("alice")
        space = await backend_setup.room(alice, room_type="m.space")
        room_id = await backend_setup.room(alice)
        side = backend_setup.side
        for _ in range(2):
            await side.add_to_space(space, room_id, alice, order="1", suggested=True)
        assert await backend_setup.state(space, "m.space.child", room_id) == {
            "via": [backend_setup.domain],
            "order": "1",
            "suggested": True,
        }
        assert await backend_setup.state(room_id, "m.space.parent", space) == {"via": [backend_setup.domain]}
        for _ in range(2):
            await side.remove_from_space(space, room_id, alice)
        assert await backend_setup.state(space, "m.space.child", room_id) == {}
        assert await backend_setup.state(room_id, "m.space.parent", space) == {}
        for room, type_ in ((space, "m.space.child"), (room_id, "m.space.parent")):
            told = [event for event in await backend_setup.events(room) if event.type == type_]
            assert len(told) == 2

    async def test_space_child_is_sufficient(self, backend_setup: BackendSetup) -> None:
        """For rooms that the user cannot change, or that are unknown; the power level in the space is
        required."""
        alice, eve, bob = (
            await backend_setup.user("alice"),
            await backend_setup.user("eve"),
            await backend_setup.person(),
        )
        side = backend_setup.side
        space, room_id = await backend_setup.room(alice, room_type="m.space"), await backend_setup.room(eve)
        unknown = f"!elsewhere:{bob.server_name}"
        await side.add_to_space(space, room_id, alice)
        await side.add_to_space(space, unknown, alice)
        assert await backend_setup.state(room_id, "m.space.parent", space) is None
        children = await side.state(space, "m.space.child")
        assert {event.state_key for event in children} == {room_id, unknown}
        await refused(side.add_to_space(space, room_id, eve, order="1"), "M_FORBIDDEN")
        await refused(side.remove_from_space(space, room_id, eve), "M_FORBIDDEN")

    async def test_people_browse_the_space(self, backend_setup: BackendSetup) -> None:
        """And find its rooms."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        space = await backend_setup.room(alice, room_type="m.space", name="House")
        room_id = await backend_setup.room(alice, name="Kitchen")
        await backend_setup.side.add_to_space(space, room_id, alice, suggested=True)
        await backend_setup.come(bob, space)
        found = await bob.hierarchy(space)
        assert [(room["room_id"], room["name"]) for room in found] == [(space, "House"), (room_id, "Kitchen")]

    async def test_acl_must_admit_the_own_server(self, backend_setup: BackendSetup) -> None:
        """Others are refused."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        side = backend_setup.side
        assert await side.server_acl(room_id) is None
        for _ in range(2):
            await side.set_server_acl(room_id, alice, deny=["evil.example"])
        acl = await side.server_acl(room_id)
        assert acl == {"allow": ["*"], "deny": ["evil.example"], "allow_ip_literals": True}
        server = backend_setup.domain.partition(":")[0]
        shutting: list[dict[str, Any]] = [
            {"deny": ["*"]}, {"deny": [server]}, {"allow": ["other.example"]}, {"allow": []},
        ]  # fmt: skip
        for shut in shutting:
            await refused(side.set_server_acl(room_id, alice, **shut), "M_INVALID_PARAM")
        assert await side.server_acl(room_id) == acl
        await refused(
            side.set_server_acl(room_id, await backend_setup.user("eve"), deny=["good.example"]), "M_FORBIDDEN"
        )
