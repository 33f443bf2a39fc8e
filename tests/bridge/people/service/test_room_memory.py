"""What kind of room each is."""

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.place import Kind
from bridge.people.service.identities import Identities
from bridge.people.service.rooms import AgentsRooms, RoomMemory
from bridge.people.settings import PeopleSettings
from federation.events.room_event import RoomEvent
from storage.database import Database
from tests.federation.local_users.homes import homeserver_without_port
from tests.support.agents import registered, routing_table
from tests.support.ghosts import ghosts_of


def member(room_id: str, user: str) -> RoomEvent:
    return RoomEvent("$e", room_id, user, "m.room.member", {"membership": "join"}, 1, state_key=user)


async def test_it_is_remembered_until_somebody_comes(database: Database) -> None:
    """Or goes; what else happens changes nothing."""
    async with homeserver_without_port("here", database) as home, routing_table(database) as routes:
        await routes.update([registered("worker@here")])
        worker, other = await home.user("worker"), await home.user("other")
        settings = PeopleSettings(HomeserverGhostNames("here"))
        identities = Identities(settings.names, routes)
        rooms = AgentsRooms(
            home.rooms,
            settings,
            identities,
            ghosts_of(home, routes),
            lambda address: (),
            lambda sentence, error: None,
        )
        memory = RoomMemory(home.rooms, identities, rooms)
        room_id = await home.room(worker)
        place = await memory.place(room_id)
        assert place is not None
        assert (place.kind, place.speakers) == (Kind.ROOM, (worker,))
        await home.rooms.leave(room_id, worker)
        assert await memory.place(room_id) == place
        memory.heard(member("!other", worker))
        memory.heard(RoomEvent("$e", room_id, other, "m.room.message", {}, 1))
        assert await memory.place(room_id) == place
        looked = await memory.look(room_id)
        assert looked is None or looked.speakers == ()
        memory.heard(member(room_id, worker))
        place = await memory.place(room_id)
        assert place is None or place.speakers == ()


async def test_a_room_that_nobody_knows(database: Database) -> None:
    """Is none."""
    async with homeserver_without_port("here", database) as home, routing_table(database) as routes:
        settings = PeopleSettings(HomeserverGhostNames("here"))
        identities = Identities(settings.names, routes)
        rooms = AgentsRooms(
            home.rooms,
            settings,
            identities,
            ghosts_of(home, routes),
            lambda address: (),
            lambda sentence, error: None,
        )
        memory = RoomMemory(home.rooms, identities, rooms)
        assert await memory.place("!nowhere") is None
        assert await memory.look("!nowhere") is None
