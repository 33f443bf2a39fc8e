"""Memberships."""

from federation.events.room_event import Member
from tests.connectors.setup import Ground, refused


class MembershipsBehave:
    async def test_join_and_leave(self, ground: Ground) -> None:
        """By id or alias, with the profile; both are idempotent."""
        alice, eve, fay = [await ground.user(name, name.title()) for name in ("alice", "eve", "fay")]
        alias = ground.named_alias("kitchen")
        room_id = await ground.room(alice, alias=alias)
        bob = await ground.person()
        await ground.come(bob, room_id)
        for _ in range(2):
            assert await ground.side.join(ground.alias(alias), eve, reason="hungry") == room_id
            assert await ground.side.join(room_id, fay, via=[ground.domain]) == room_id
        assert (await ground.state(room_id, "m.room.member", eve))["reason"] == "hungry"
        for user, name in ((alice, "Alice"), (eve, "Eve"), (fay, "Fay")):
            assert Member(user, "join", name) in await ground.side.members(room_id)
        assert {member.user_id for member in await ground.side.members(room_id)} == {
            alice, bob.user_id, eve, fay,
        }  # fmt: skip
        assert await ground.side.joined_rooms(eve) == [room_id]
        for _ in range(2):
            await ground.side.leave(room_id, eve, reason="full")
        left = await bob.wait_for_member(room_id, eve, "leave")
        assert left["content"]["reason"] == "full"
        assert await ground.side.joined_rooms(eve) == []
        assert [one.user_id for one in await ground.side.members(room_id, ["leave"])] == [eve]
        assert await ground.side.membership(room_id, eve) == "leave"
        said = [
            event.content["membership"] for event in await ground.events(room_id) if event.state_key == eve
        ]
        assert said == ["join", "leave"]
        await refused(ground.say(room_id, eve, "Am I still here?"), "M_FORBIDDEN")

    async def test_join_rooms_of_people(self, ground: Ground) -> None:
        """Through the given servers or those of the alias; their events arrive afterwards."""
        bob, alice = await ground.person(), await ground.user("alice", "Alice")
        name = ground.named("den")
        room_id = await bob.create_room(preset="public_chat", alias=name, name="Den")
        assert await ground.side.join(f"#{name}:{bob.server_name}", alice) == room_id
        await bob.wait_for_member(room_id, alice, "join")
        await ground.until_event(await bob.say(room_id, "Welcome."))
        assert await ground.state(room_id, "m.room.name") == {"name": "Den"}
        assert {one.user_id for one in await ground.side.members(room_id)} == {bob.user_id, alice}
        other = await bob.create_room(preset="public_chat")
        assert await ground.side.join(other, alice, via=[bob.server_name]) == other
        assert sorted(await ground.side.joined_rooms(alice)) == sorted([room_id, other])

    async def test_invites_of_people(self, ground: Ground) -> None:
        """With stripped state, until they are answered or retracted."""
        bob = await ground.person()
        alice, eve, fay = [await ground.user(name) for name in ("alice", "eve", "fay")]
        room_id = await bob.create_room(name="Den")
        for user in (alice, eve, fay):
            await bob.invite(room_id, user, reason="soup")

            async def is_invited(user: str = user) -> bool:
                return bool(await ground.side.invites(user))

            await ground.until_so(is_invited)
        (invite,) = await ground.side.invites(alice)
        assert (invite.room_id, invite.user_id, invite.sender) == (room_id, alice, bob.user_id)
        assert {"m.room.create", "m.room.name"} <= {one["type"] for one in invite.state}
        for _ in range(2):
            assert await ground.side.join(room_id, alice) == room_id
        for _ in range(2):
            await ground.side.leave(room_id, eve)
        await bob.wait_for_member(room_id, alice, "join")
        await bob.wait_for_member(room_id, eve, "leave")
        await bob.kick(room_id, fay)

        async def is_taken_back() -> bool:
            return not await ground.side.invites(fay)

        await ground.until_so(is_taken_back)
        for user in (alice, eve):
            assert await ground.side.invites(user) == []
        assert await ground.side.joined_rooms(alice) == [room_id]
        assert await ground.side.joined_rooms(eve) == []

    async def test_invite(self, ground: Ground) -> None:
        """Once; members are not invited, and unknown users are refused."""
        alice, eve, bob = await ground.user("alice"), await ground.user("eve"), await ground.person()
        room_id = await ground.room(alice, preset="private_chat")
        await refused(ground.side.join(room_id, eve), "M_FORBIDDEN")
        for user in (bob.user_id, eve):
            for _ in range(2):
                await ground.side.invite(room_id, alice, user, reason="soup")
            assert (await ground.state(room_id, "m.room.member", user))["reason"] == "soup"
        (inside,) = await ground.side.invites(eve)
        assert (inside.room_id, inside.sender) == (room_id, alice)
        await bob.wait_for_invite(room_id)
        await ground.come(bob, room_id)
        await ground.side.join(room_id, eve)
        assert await ground.side.invites(eve) == []
        for user in (bob.user_id, eve):
            await ground.side.invite(room_id, alice, user)
            assert await ground.side.membership(room_id, user) == "join"
        said = [event for event in await ground.events(room_id) if event.state_key in (bob.user_id, eve)]
        assert [event.content["membership"] for event in said] == ["invite", "invite", "join", "join"]
        await refused(ground.side.invite(room_id, alice, ground.nobody()), "M_NOT_FOUND")
        fay, gil = await ground.user("fay"), await ground.user("gil")
        await refused(ground.side.invite(room_id, fay, gil), "M_FORBIDDEN")
        await refused(ground.side.invite("!no:here.test", alice, bob.user_id), "M_NOT_FOUND", "M_FORBIDDEN")

    async def test_knock(self, ground: Ground) -> None:
        """On local rooms and rooms of people. It can be retracted, and is answered by an invite."""
        alice, bob = await ground.user("alice"), await ground.person()
        room_id = await ground.room(alice, preset="private_chat", join_rule="knock")
        await bob.knock(room_id, via=[ground.domain], reason="hello")
        await ground.until_member(room_id, bob.user_id, "knock")
        assert (await ground.state(room_id, "m.room.member", bob.user_id))["reason"] == "hello"
        await ground.side.invite(room_id, alice, bob.user_id)
        await bob.wait_for_invite(room_id)
        await ground.come(bob, room_id)

        name = ground.named("door")
        rules = {"type": "m.room.join_rules", "state_key": "", "content": {"join_rule": "knock"}}
        theirs = await bob.create_room(alias=name, initial_state=[rules])
        for _ in range(2):
            assert await ground.side.knock(f"#{name}:{bob.server_name}", alice, reason="hello") == theirs
        knocked = await bob.wait_for_member(theirs, alice, "knock")
        assert knocked["content"]["reason"] == "hello"
        assert await ground.side.invites(alice) == []
        for _ in range(2):
            await ground.side.leave(theirs, alice)
        await bob.wait_for_member(theirs, alice, "leave")
        closed = await bob.create_room()
        await refused(ground.side.knock(closed, alice, via=[bob.server_name]), "M_FORBIDDEN")

    async def test_moderation(self, ground: Ground) -> None:
        """Idempotent; unbanning a user who is not banned does nothing."""
        room_id, alice, bob = await ground.meeting()
        eve = await ground.user("eve")
        await ground.side.join(room_id, eve)
        side = ground.side
        for user in (bob.user_id, eve):
            for _ in range(2):
                await side.kick(room_id, alice, user, reason="enough")
            assert await side.membership(room_id, user) == "leave"
            await side.unban(room_id, alice, user)
            for _ in range(2):
                await side.ban(room_id, alice, user, reason="spam")
            banned = await ground.state(room_id, "m.room.member", user)
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
                event.content["membership"]
                for event in await ground.events(room_id)
                if event.state_key == user
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

    async def test_people_moderate_local_users(self, ground: Ground) -> None:
        """The backend knows that they are no longer members."""
        bob, alice = await ground.person(), await ground.user("alice")
        room_id = await bob.create_room(preset="public_chat")
        await ground.side.join(room_id, alice, via=[bob.server_name])
        await bob.kick(room_id, alice, reason="enough")
        await ground.until_member(room_id, alice, "leave")
        assert await ground.side.joined_rooms(alice) == []
        await ground.side.join(room_id, alice, via=[bob.server_name])
        await bob.ban(room_id, alice)
        await ground.until_member(room_id, alice, "ban")
        assert await ground.side.joined_rooms(alice) == []
        await refused(ground.say(room_id, alice, "Am I still here?"), "M_FORBIDDEN")
        await refused(ground.side.join(room_id, alice, via=[bob.server_name]), "M_FORBIDDEN")

    async def test_unknown_rooms_aliases_and_users(self, ground: Ground) -> None:
        """Leaving a room that the user is not in succeeds."""
        side, alice = ground.side, await ground.user("alice")
        room_id = await ground.room(alice)
        unknown = f"!no:{ground.domain}"
        await refused(side.join(ground.alias("no"), alice), "M_NOT_FOUND")
        await refused(side.join(unknown, alice), "M_NOT_FOUND")
        for act in (side.kick, side.ban, side.unban):
            await refused(act(unknown, alice, alice), "M_NOT_FOUND")
            await refused(act(room_id, alice, "alice"), "M_INVALID_PARAM")
        await refused(side.members(unknown), "M_NOT_FOUND")
        await refused(side.join(room_id, ground.nobody()), "M_NOT_FOUND")
        await side.leave(unknown, alice)
        assert await side.membership(unknown, alice) is None
