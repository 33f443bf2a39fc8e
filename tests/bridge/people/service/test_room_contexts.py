"""The cache of room contexts."""

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.room import RoomKind
from bridge.people.service.identities import Identities
from bridge.people.service.rooms import AgentsRooms, RoomContextCache
from bridge.people.settings import PeopleSettings
from federation.events.room_event import RoomEvent
from storage.database import Database
from tests.federation.local_users.homes import homeserver_without_port
from tests.support.agents import registered, routing_table
from tests.support.ghosts import ghosts_of


def member(room_id: str, user: str) -> RoomEvent:
    return RoomEvent("$e", room_id, user, "m.room.member", {"membership": "join"}, 1, state_key=user)


async def test_a_context_is_cached_until_the_members_change(database: Database) -> None:
    """Other events do not change it."""
    async with homeserver_without_port("here", database) as home, routing_table(database) as routes:
        await routes.update([registered("worker@here")])
        worker, other = await home.user("worker"), await home.user("other")
        settings = PeopleSettings(HomeserverGhostNames("here"))
        identities = Identities(settings.names, routes)
        rooms = AgentsRooms(
            home.rooms, settings, identities, ghosts_of(home, routes), lambda address: (), lambda sentence, error: None
        )
        contexts = RoomContextCache(home.rooms, identities, rooms)
        room_id = await home.room(worker)
        room = await contexts.context(room_id)
        assert room is not None
        assert (room.kind, room.senders) == (RoomKind.OTHER, (worker,))
        await home.rooms.leave(room_id, worker)
        assert await contexts.context(room_id) == room
        contexts.handle(member("!other", worker))
        contexts.handle(RoomEvent("$e", room_id, other, "m.room.message", {}, 1))
        assert await contexts.context(room_id) == room
        looked = await contexts.fetch(room_id)
        assert looked is None or looked.senders == ()
        contexts.handle(member(room_id, worker))
        room = await contexts.context(room_id)
        assert room is None or room.senders == ()


async def test_an_unknown_room_has_no_context(database: Database) -> None:
    """Is none."""
    async with homeserver_without_port("here", database) as home, routing_table(database) as routes:
        settings = PeopleSettings(HomeserverGhostNames("here"))
        identities = Identities(settings.names, routes)
        rooms = AgentsRooms(
            home.rooms, settings, identities, ghosts_of(home, routes), lambda address: (), lambda sentence, error: None
        )
        contexts = RoomContextCache(home.rooms, identities, rooms)
        assert await contexts.context("!nowhere") is None
        assert await contexts.fetch("!nowhere") is None
