"""Memberships."""

from federation.events.room_event import Member
from tests.connectors.setup import BackendSetup, refused


class MembershipsBehave:
    async def test_join_and_leave(self, backend_setup: BackendSetup) -> None:
        """By id or alias, with the profile; both are idempotent."""
        alice, eve, fay = [await backend_setup.user(name, name.title()) for name in ("alice", "eve", "fay")]
        alias = backend_setup.named_alias("kitchen")
        room_id = await backend_setup.room(alice, alias=alias)
        bob = await backend_setup.person()
        await backend_setup.come(bob, room_id)
        for _ in range(2):
            assert await backend_setup.side.join(backend_setup.alias(alias), eve, reason="hungry") == room_id
            assert await backend_setup.side.join(room_id, fay, via=[backend_setup.domain]) == room_id
        assert (await backend_setup.state(room_id, "m.room.member", eve))["reason"] == "hungry"
        for user, name in ((alice, "Alice"), (eve, "Eve"), (fay, "Fay")):
            assert Member(user, "join", name) in await backend_setup.side.members(room_id)
        assert {member.user_id for member in await backend_setup.side.members(room_id)} == {
            alice, bob.user_id, eve, fay,
        }  # fmt: skip
        assert await backend_setup.side.joined_rooms(eve) == [room_id]
        for _ in range(2):
            await backend_setup.side.leave(room_id, eve, reason="full")
        left = await bob.wait_for_member(room_id, eve, "leave")
        assert left["content"]["reason"] == "full"
        assert await backend_setup.side.joined_rooms(eve) == []
        assert [one.user_id for one in await backend_setup.side.members(room_id, ["leave"])] == [eve]
        assert await backend_setup.side.membership(room_id, eve) == "leave"
        said = [event.content["membership"] for event in await backend_setup.events(room_id) if event.state_key == eve]
        assert said == ["join", "leave"]
        await refused(backend_setup.say(room_id, eve, "Am I still here?"), "M_FORBIDDEN")

    async def test_join_rooms_of_people(self, backend_setup: BackendSetup) -> None:
        """Through the given servers or those of the alias; their events arrive afterwards."""
        bob, alice = await backend_setup.person(), await backend_setup.user("alice", "Alice")
        name = backend_setup.named("den")
        room_id = await bob.create_room(preset="public_chat", alias=name, name="Den")
        assert await backend_setup.side.join(f"#{name}:{bob.server_name}", alice) == room_id
        await bob.wait_for_member(room_id, alice, "join")
        await backend_setup.until_event(await bob.say(room_id, "Welcome."))
        assert await backend_setup.state(room_id, "m.room.name") == {"name": "Den"}
        assert {one.user_id for one in await backend_setup.side.members(room_id)} == {bob.user_id, alice}
        other = await bob.create_room(preset="public_chat")
        assert await backend_setup.side.join(other, alice, via=[bob.server_name]) == other
        assert sorted(await backend_setup.side.joined_rooms(alice)) == sorted([room_id, other])

    async def test_invites_of_people(self, backend_setup: BackendSetup) -> None:
        """With stripped state, until they are answered or retracted."""
        bob = await backend_setup.person()
        alice, eve, fay = [await backend_setup.user(name) for name in ("alice", "eve", "fay")]
        room_id = await bob.create_room(name="Den")
        for user in (alice, eve, fay):
            await bob.invite(room_id, user, reason="soup")

            async def is_invited(user: str = user) -> bool:
                return bool(await backend_setup.side.invites(user))

            await backend_setup.until_so(is_invited)
        (invite,) = await backend_setup.side.invites(alice)
        assert (invite.room_id, invite.user_id, invite.sender) == (room_id, alice, bob.user_id)
        assert {"m.room.create", "m.room.name"} <= {one["type"] for one in invite.state}
        for _ in range(2):
            assert await backend_setup.side.join(room_id, alice) == room_id
        for _ in range(2):
            await backend_setup.side.leave(room_id, eve)
        await bob.wait_for_member(room_id, alice, "join")
        await bob.wait_for_member(room_id, eve, "leave")
        await bob.kick(room_id, fay)

        async def is_taken_back() -> bool:
            return not await backend_setup.side.invites(fay)

        await backend_setup.until_so(is_taken_back)
        for user in (alice, eve):
            assert await backend_setup.side.invites(user) == []
        assert await backend_setup.side.joined_rooms(alice) == [room_id]
        assert await backend_setup.side.joined_rooms(eve) == []

    async def test_invite(self, backend_setup: BackendSetup) -> None:
        """Once; members are not invited, and unknown users are refused."""
        alice, eve, bob = (
            await backend_setup.user("alice"),
            await backend_setup.user("eve"),
            await backend_setup.person(),
        )
        room_id = await backend_setup.room(alice, preset="private_chat")
        await refused(backend_setup.side.join(room_id, eve), "M_FORBIDDEN")
        for user in (bob.user_id, eve):
            for _ in range(2):
                await backend_setup.side.invite(room_id, alice, user, reason="soup")
            assert (await backend_setup.state(room_id, "m.room.member", user))["reason"] == "soup"
        (inside,) = await backend_setup.side.invites(eve)
        assert (inside.room_id, inside.sender) == (room_id, alice)
        await bob.wait_for_invite(room_id)
        await backend_setup.come(bob, room_id)
        await backend_setup.side.join(room_id, eve)
        assert await backend_setup.side.invites(eve) == []
        for user in (bob.user_id, eve):
            await backend_setup.side.invite(room_id, alice, user)
            assert await backend_setup.side.membership(room_id, user) == "join"
        said = [event for event in await backend_setup.events(room_id) if event.state_key in (bob.user_id, eve)]
        assert [event.content["membership"] for event in said] == ["invite", "invite", "join", "join"]
        await refused(backend_setup.side.invite(room_id, alice, backend_setup.nobody()), "M_NOT_FOUND")
        fay, gil = await backend_setup.user("fay"), await backend_setup.user("gil")
        await refused(backend_setup.side.invite(room_id, fay, gil), "M_FORBIDDEN")
        await refused(backend_setup.side.invite("!no:here.test", alice, bob.user_id), "M_NOT_FOUND", "M_FORBIDDEN")

    async def test_knock(self, backend_setup: BackendSetup) -> None:
        """On local rooms and rooms of people. It can be retracted, and is answered by an invite."""
        alice, bob = await backend_setup.user("alice"), await backend_setup.person()
        room_id = await backend_setup.room(alice, preset="private_chat", join_rule="knock")
        await bob.knock(room_id, via=[backend_setup.domain], reason="hello")
        await backend_setup.until_member(room_id, bob.user_id, "knock")
        assert (await backend_setup.state(room_id, "m.room.member", bob.user_id))["reason"] == "hello"
        await backend_setup.side.invite(room_id, alice, bob.user_id)
        await bob.wait_for_invite(room_id)
        await backend_setup.come(bob, room_id)

        name = backend_setup.named("door")
        rules = {"type": "m.room.join_rules", "state_key": "", "content": {"join_rule": "knock"}}
        theirs = await bob.create_room(alias=name, initial_state=[rules])
        for _ in range(2):
            assert await backend_setup.side.knock(f"#{name}:{bob.server_name}", alice, reason="hello") == theirs
        knocked = await bob.wait_for_member(theirs, alice, "knock")
        assert knocked["content"]["reason"] == "hello"
        assert await backend_setup.side.invites(alice) == []
        for _ in range(2):
            await backend_setup.side.leave(theirs, alice)
        await bob.wait_for_member(theirs, alice, "leave")
        closed = await bob.create_room()
        await refused(backend_setup.side.knock(closed, alice, via=[bob.server_name]), "M_FORBIDDEN")

    async def test_moderation(self, backend_setup: BackendSetup) -> None:
        """Idempotent; unbanning a user who is not banned does nothing."""
        room_id, alice, bob = await backend_setup.meeting()
        eve = await backend_setup.user("eve")
        await backend_setup.side.join(room_id, eve)
        side = backend_setup.side
        for user in (bob.user_id, eve):
            for _ in range(2):
                await side.kick(room_id, alice, user, reason="enough")
            assert await side.membership(room_id, user) == "leave"
            await side.unban(room_id, alice, user)
            for _ in range(2):
                await side.ban(room_id, alice, user, reason="spam")
            banned = await backend_setup.state(room_id, "m.room.member", user)
            assert (banned["membership"], banned["reason"]) == ("ban", "spam")
            await side.kick(room_id, alice, user)
            assert await side.membership(room_id, user) == "ban"
            await refused(side.invite(room_id, alice, user), "M_FORBIDDEN")
        await side.leave(room_id, eve)
        await refused(side.join(room_id, eve), "M_FORBIDDEN")
        for user in (bob.user_id, eve):
            for _ in range(2):
                await side.unban(room_id, alice, user)
            said = [
                event.content["membership"] for event in await backend_setup.events(room_id) if event.state_key == user
            ]
            assert said == ["join", "leave", "ban", "leave"]
        await side.join(room_id, eve)
        for act in (side.kick, side.ban):
            await refused(act(room_id, eve, alice), "M_FORBIDDEN")
        # A user who was never in the room can be banned.
        never = f"@never:{bob.server_name}"
        assert await side.membership(room_id, never) is None
        await side.kick(room_id, alice, never)
        assert await side.membership(room_id, never) is None
        await side.ban(room_id, alice, never)
        assert await side.membership(room_id, never) == "ban"

    async def test_people_moderate_local_users(self, backend_setup: BackendSetup) -> None:
        """The backend knows that they are no longer members."""
        bob, alice = await backend_setup.person(), await backend_setup.user("alice")
        room_id = await bob.create_room(preset="public_chat")
        await backend_setup.side.join(room_id, alice, via=[bob.server_name])
        await bob.kick(room_id, alice, reason="enough")
        await backend_setup.until_member(room_id, alice, "leave")
        assert await backend_setup.side.joined_rooms(alice) == []
        await backend_setup.side.join(room_id, alice, via=[bob.server_name])
        await bob.ban(room_id, alice)
        await backend_setup.until_member(room_id, alice, "ban")
        assert await backend_setup.side.joined_rooms(alice) == []
        await refused(backend_setup.say(room_id, alice, "Am I still here?"), "M_FORBIDDEN")
        await refused(backend_setup.side.join(room_id, alice, via=[bob.server_name]), "M_FORBIDDEN")

    async def test_unknown_rooms_aliases_and_users(self, backend_setup: BackendSetup) -> None:
        """Leaving a room that the user is not in succeeds."""
        side, alice = backend_setup.side, await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        unknown = f"!no:{backend_setup.domain}"
        await refused(side.join(backend_setup.alias("no"), alice), "M_NOT_FOUND")
        await refused(side.join(unknown, alice), "M_NOT_FOUND")
        for act in (side.kick, side.ban, side.unban):
            await refused(act(unknown, alice, alice), "M_NOT_FOUND")
            await refused(act(room_id, alice, "alice"), "M_INVALID_PARAM")
        await refused(side.members(unknown), "M_NOT_FOUND")
        await refused(side.join(room_id, backend_setup.nobody()), "M_NOT_FOUND")
        await side.leave(unknown, alice)
        assert await side.membership(unknown, alice) is None
