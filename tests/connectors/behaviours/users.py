"""Users and profiles, and that the backend only acts for local users."""

from collections.abc import Awaitable, Callable

import pytest

from bridge.matrix.backend import MatrixBackend
from federation.rooms.creation import CreateRoomRequest
from tests.connectors.setup import BackendSetup, refused

Act = Callable[[MatrixBackend, str, str], Awaitable[object]]
ACTS: dict[str, Act] = {
    "set_profile": lambda side, room, user: side.set_profile(user, displayname="Mallory"),
    "create_room": lambda side, room, user: side.create_room(CreateRoomRequest(creator=user)),
    "upgrade_room": lambda side, room, user: side.upgrade_room(room, user, "12"),
    "create_alias": lambda side, room, user: side.create_alias(f"#x:{side.server_name}", room, user),
    "join": lambda side, room, user: side.join(room, user),
    "leave": lambda side, room, user: side.leave(room, user),
    "knock": lambda side, room, user: side.knock(room, user),
    "invite": lambda side, room, user: side.invite(room, user, "@somebody:else.example"),
    "kick": lambda side, room, user: side.kick(room, user, "@somebody:else.example"),
    "ban": lambda side, room, user: side.ban(room, user, "@somebody:else.example"),
    "unban": lambda side, room, user: side.unban(room, user, "@somebody:else.example"),
    "joined_rooms": lambda side, room, user: side.joined_rooms(user),
    "invites": lambda side, room, user: side.invites(user),
    "send": lambda side, room, user: side.send(room, user, "m.room.message", {"body": "x"}),
    "set_state": lambda side, room, user: side.set_state(room, user, "m.room.topic", {"topic": "x"}),
    "redact": lambda side, room, user: side.redact(room, user, "$unknown"),
    "add_to_space": lambda side, room, user: side.add_to_space(room, room, user),
    "set_server_acl": lambda side, room, user: side.set_server_acl(room, user),
    "set_typing": lambda side, room, user: side.set_typing(room, user, typing=True),
    "set_presence": lambda side, room, user: side.set_presence(user, "online"),
    "mark_read": lambda side, room, user: side.mark_read(room, user, "$unknown"),
    "device_messages": lambda side, room, user: side.device_messages(user),
    "upload": lambda side, room, user: side.upload(user, b"x"),
}


class UsersBehave:
    async def test_ensure_user(self, backend_setup: BackendSetup) -> None:
        """Idempotent; other ghosts do not exist."""
        user = f"@{backend_setup.localpart(backend_setup.named('cook'))}:{backend_setup.domain}"
        assert await backend_setup.side.profile(user) is None
        for _ in range(2):
            await backend_setup.side.ensure_user(user)
            assert await backend_setup.side.profile(user) is not None
        async with backend_setup.again() as again:
            await again.ensure_user(user)
            assert await again.profile(user) is not None

    async def test_only_local_users_are_created(self, backend_setup: BackendSetup) -> None:
        """Not users of other servers, nor invalid ids."""
        bob = await backend_setup.person()
        for user in (bob.user_id, "@cook:nowhere.example", "cook", f"@:{backend_setup.domain}", "@\0:x", ""):
            await refused(backend_setup.side.ensure_user(user), "M_INVALID_USERNAME", "M_EXCLUSIVE")

    async def test_profile_reaches_rooms(self, backend_setup: BackendSetup) -> None:
        """Joined rooms and rooms joined later. None leaves a field, an empty string removes it, and unchanged
        fields are not sent."""
        room_id, _, bob = await backend_setup.meeting()
        eve = await backend_setup.user("eve", "Eve")
        await backend_setup.side.join(room_id, eve)
        joined = await bob.wait_for_member(room_id, eve, "join")
        assert joined["content"]["displayname"] == "Eve"
        picture = (await backend_setup.side.upload(eve, b"picture", "image/png")).mxc
        await backend_setup.side.set_profile(eve, displayname="Eva", avatar_url=str(picture))
        assert await backend_setup.side.profile(eve) == {"displayname": "Eva", "avatar_url": str(picture)}
        await bob.wait_for(
            lambda event: (
                event.get("state_key") == eve
                and event["content"].get("displayname") == "Eva"
                and event["content"].get("avatar_url") == str(picture)
            ),
            room_id=room_id,
        )
        await backend_setup.side.set_profile(eve, avatar_url="")
        assert await backend_setup.side.profile(eve) == {"displayname": "Eva"}

        async def is_told() -> bool:
            wanted = {"membership": "join", "displayname": "Eva"}
            return bool(await backend_setup.state(room_id, "m.room.member", eve) == wanted)

        await backend_setup.until_so(is_told)
        before = await backend_setup.events(room_id)
        for displayname in ("Eva", None):
            await backend_setup.side.set_profile(eve, displayname=displayname)
        last = await backend_setup.say(room_id, eve, "It is still me.")
        await bob.wait_for_event(last)
        after = await backend_setup.events(room_id)
        assert [event.event_id for event in after] == [*(event.event_id for event in before), last]

    async def test_profiles_of_people(self, backend_setup: BackendSetup) -> None:
        """None for unknown users."""
        bob = await backend_setup.person()
        await bob.set_display_name("Bob the builder")
        profile = await backend_setup.side.profile(bob.user_id)
        assert profile is not None
        assert profile["displayname"] == "Bob the builder"
        assert await backend_setup.side.profile(f"@{backend_setup.named('nobody')}:{bob.server_name}") is None
        assert await backend_setup.side.profile(backend_setup.nobody()) is None

    @pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
    async def test_only_local_users_act(self, backend_setup: BackendSetup, act: Act) -> None:
        """For every operation, whether or not the user exists."""
        bob = await backend_setup.person()
        alice = await backend_setup.user()
        room_id = await backend_setup.room(alice)
        for user in (bob.user_id, "@bob:nowhere.example", "bob", ""):
            assert (await refused(act(backend_setup.side, room_id, user), "M_FORBIDDEN")).status == 403
