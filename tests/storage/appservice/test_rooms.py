"""Cached state of the homeserver's rooms."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from storage.appservice import rooms
from storage.appservice.events import NewEvent, NewTransaction, Redaction, receive_transaction
from storage.appservice.rooms import CachedEntry, Completeness, StateEntry, StateFetch
from storage.database import Connection, Database
from storage.rooms.events import insert_redactions

ROOM = "!kitchen:a"
OURS = "@_w:a"
ALICE = "@alice:a"
DAY = timedelta(days=1)
SOON = timedelta(minutes=10)
OVER = timedelta(seconds=-1)


def entry(event_id: str, type_: str = "m.room.topic", ts: int = 1, content: bytes = b"{}") -> StateEntry:
    return StateEntry(ROOM, type_.encode(), b"", event_id, ALICE, ts, content, False, None, False)


def member(event_id: str, user: str, membership: str) -> StateEntry:
    is_ours = user.startswith("@_")
    return StateEntry(ROOM, b"m.room.member", user.encode(), event_id, user, 1, b"{}", False, membership, is_ours)


@dataclass
class Receiver:
    """Receives transactions, as the intake does."""

    connection: Connection
    count: int = 0

    async def __call__(self, *entries: StateEntry, redacts: str | None = None, id_: str | None = None) -> None:
        self.count += 1
        ids = [one.event_id for one in entries] + ([f"$r{self.count}"] if redacts else [])
        rows = [NewEvent(event_id, ROOM, "timeline", None, None, b"{}") for event_id in ids]
        digest = self.count.to_bytes(32)
        redactions = [Redaction(redacts, f"$r{self.count}", ROOM)] if redacts else []
        received = NewTransaction("palaver", id_ or str(self.count), digest, rows, entries, redactions)
        assert (await receive_transaction(self.connection, received)).is_new

    async def fetch_complete(self, *entries: StateEntry) -> None:
        begun = await rooms.begin_state_fetch(self.connection, ROOM)
        assert begun is not None
        assert await rooms.merge_state(self.connection, ROOM, begun, entries)

    async def ids(self, *, age: timedelta = DAY) -> tuple[Completeness, list[str]]:
        known = await rooms.fetch_entries(self.connection, ROOM, None, None, age)
        assert known is not None
        return known[0], [one.event_id for one in known[1]]


async def test_a_room_is_cached_once_a_local_user_is_there(database: Database) -> None:
    """With the other state events of the same transaction, the last of each key. Other rooms are not
    cached."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(entry("$1"), member("$2", ALICE, "join"))
        assert await rooms.fetch_entries(connection, ROOM, None, None, DAY) is None
        await receive(entry("$3"), member("$4", OURS, "invite"), entry("$5"), member("$6", OURS, "join"))
        assert await receive.ids() == ("partial", ["$6", "$5"])
        known = await rooms.fetch_entry(connection, ROOM, b"m.room.topic", b"", DAY)
        assert known == ("partial", [CachedEntry("$5", b"m.room.topic", b"", ALICE, 1, b"{}", False)])
        assert await rooms.fetch_entry(connection, ROOM, b"m.room.name", b"", DAY) == ("partial", [])
        assert await rooms.fetch_entry(connection, "!other:a", b"m.room.name", b"", DAY) is None
        assert await rooms.list_local_members(connection, ROOM, 10) == [OURS]
        assert await rooms.list_joined(connection, OURS.encode()) == [ROOM]
        assert await rooms.list_joined(connection, ALICE.encode()) == []


async def test_a_repeated_event_changes_nothing(database: Database) -> None:
    """Some homeservers send events twice."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"), entry("$2"))
        await receive(entry("$3"))
        await receive(entry("$2"))
        assert await receive.ids() == ("partial", ["$1", "$3"])


async def test_fetched_state_keeps_changes_received_since(database: Database) -> None:
    """It is complete until it is stale or marked incomplete."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"), entry("$2"), entry("$3", "m.room.name"))
        begun = await rooms.begin_state_fetch(connection, ROOM)
        assert begun is not None
        await receive(entry("$4", ts=9))
        fetched = [member("$1", OURS, "join"), entry("$2"), entry("$5", "io.new")]
        assert await rooms.merge_state(connection, ROOM, begun, fetched)
        assert await receive.ids() == ("complete", ["$5", "$1", "$4"])
        assert await receive.ids(age=OVER) == ("stale", ["$5", "$1", "$4"])
        assert await rooms.begin_state_fetch(connection, "!other:a") is None
        begun = await rooms.begin_state_fetch(connection, ROOM)
        assert begun is not None
        await rooms.mark_incomplete(connection, ROOM)
        assert await receive.ids() == ("partial", ["$5", "$1", "$4"])
        assert not await rooms.merge_state(connection, ROOM, begun, fetched)
        assert await receive.ids() == ("partial", ["$5", "$1", "$2"])


async def test_only_changed_entries_are_written(database: Database) -> None:
    """A room is fetched again every day."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"), entry("$2"))
        before = await rooms.begin_state_fetch(connection, ROOM)
        assert before is not None
        await receive.fetch_complete(member("$1", OURS, "join"), entry("$2"))
        changes = [row[0] for row in await connection.fetch("SELECT change FROM guest_state")]
        assert max(changes) <= before.change
        await receive.fetch_complete(member("$1", OURS, "join"), entry("$2", content=b'{"redacted":1}'))
        known = await rooms.fetch_entry(connection, ROOM, b"m.room.topic", b"", DAY)
        assert known is not None
        assert known[1][0].content == b'{"redacted":1}'


@pytest.mark.parametrize(
    ("ts", "completeness"), [(4, "partial"), (5, "complete"), (6, "complete")], ids=["older", "same", "newer"]
)
async def test_an_event_older_than_the_fetched_state_makes_it_partial(
    database: Database, ts: int, completeness: Completeness
) -> None:
    """It was received late, or its server's clock is slow."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"))
        await receive.fetch_complete(member("$1", OURS, "join"), entry("$2", ts=5))
        await receive(entry("$3", ts=ts))
        assert await receive.ids() == (completeness, ["$1", "$3"])
        await receive.fetch_complete(member("$1", OURS, "join"), entry("$4", ts=5))
        await receive(entry("$5", ts=1), entry("$4", ts=5))
        assert await receive.ids() == ("complete", ["$1", "$4"])


async def test_a_redacted_entry_makes_the_state_partial(database: Database) -> None:
    """Whether the entry was received before, together with or after the redaction."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        state = [member("$1", OURS, "join"), entry("$2")]
        await receive(*state)
        await receive.fetch_complete(*state)
        await receive(redacts="$other")
        assert (await receive.ids())[0] == "complete"
        await receive(redacts="$2")
        assert (await receive.ids())[0] == "partial"
        await receive.fetch_complete(*state)
        await receive(entry("$3"), redacts="$3")
        assert (await receive.ids())[0] == "partial"
        await receive.fetch_complete(*state)
        await insert_redactions(connection, [("$4", "$r")])
        await receive(entry("$4"))
        assert (await receive.ids())[0] == "partial"


async def test_a_recorded_change_stands_until_it_is_received(database: Database) -> None:
    """Events received before its own event are older; after its time any event is newer."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"), entry("$2"))
        await receive.fetch_complete(member("$1", OURS, "join"), entry("$2"))
        await rooms.record_change(connection, "palaver", entry("$own"), SOON)
        await receive(entry("$3"))
        assert await receive.ids() == ("complete", ["$1", "$own"])
        await receive(entry("$4"), entry("$own"), entry("$5"))
        assert await receive.ids() == ("complete", ["$1", "$5"])
        await rooms.record_change(connection, "palaver", entry("$own"), SOON)
        assert await receive.ids() == ("complete", ["$1", "$5"])
        await rooms.record_change(connection, "palaver", entry("$never"), OVER)
        assert await receive.ids() == ("partial", ["$1", "$never"])
        await receive(entry("$6"))
        assert await receive.ids() == ("complete", ["$1", "$6"])
        await rooms.record_change(connection, "palaver", entry("$never"), OVER)
        await receive.fetch_complete(member("$1", OURS, "join"), entry("$6"))
        assert await receive.ids() == ("complete", ["$1", "$6"])


async def test_a_recorded_change_caches_its_room(database: Database) -> None:
    """A room that was just created, before the homeserver has sent anything."""
    async with database.transaction() as connection:
        await rooms.record_change(connection, "palaver", member("$1", OURS, "join"), SOON)
        assert await Receiver(connection).ids() == ("partial", ["$1"])
        assert await rooms.list_local_members(connection, ROOM, 10) == [OURS]


async def test_a_room_without_local_members_is_partial(database: Database) -> None:
    """The homeserver does not send its events. While another local user is joined, it does."""
    other = "@_v:a"
    async with database.transaction() as connection:
        receive = Receiver(connection)
        state = [member("$1", OURS, "join"), member("$2", other, "join")]
        await receive(*state)
        await receive.fetch_complete(*state)
        await receive(member("$3", OURS, "leave"))
        assert (await receive.ids())[0] == "complete"
        await receive(member("$4", OURS, "join"), member("$5", other, "ban"))
        assert (await receive.ids())[0] == "complete"
        await receive(member("$6", OURS, "leave"), entry("$7"), member("$8", OURS, "join"))
        assert (await receive.ids())[0] == "partial"
        await receive.fetch_complete(member("$8", OURS, "join"), member("$5", other, "ban"))
        await rooms.record_change(connection, "palaver", member("$9", OURS, "leave"), SOON)
        assert (await receive.ids())[0] == "partial"
        assert await rooms.list_local_members(connection, ROOM, 10) == []
        assert await rooms.fetch_local_membership(connection, ROOM, OURS.encode()) == "leave"
        assert await rooms.fetch_local_membership(connection, ROOM, ALICE.encode()) is None


async def test_invites_are_listed_with_their_stripped_state(database: Database) -> None:
    """Until the user has another membership in the room."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "invite")._replace(sender=ALICE, invite_state=b"[]"))
        assert await rooms.list_invites(connection, OURS.encode()) == [(ROOM, ALICE, "$1", b"[]")]
        await receive(member("$2", OURS, "join"))
        assert await rooms.list_invites(connection, OURS.encode()) == []


async def test_a_user_who_is_not_joined_is_deleted(database: Database) -> None:
    """Unless the user has joined again since."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"))
        begun = await rooms.begin_state_fetch(connection, ROOM)
        assert begun is not None
        await rooms.delete_local_member(connection, ROOM, OURS.encode(), StateFetch(0, begun.change - 1))
        assert await rooms.list_local_members(connection, ROOM, 10) == [OURS]
        await rooms.delete_local_member(connection, ROOM, OURS.encode(), begun)
        assert await rooms.list_local_members(connection, ROOM, 10) == []


async def test_the_rooms_of_a_user_are_replaced(database: Database) -> None:
    """Only the membership is known of them."""
    async with database.transaction() as connection:
        assert not await rooms.are_rooms_loaded(connection, OURS)
        await rooms.replace_rooms_of_user(connection, OURS, [ROOM, ROOM], 0)
        assert await rooms.are_rooms_loaded(connection, OURS)
        assert await rooms.list_joined(connection, OURS.encode()) == [ROOM]
        known = await rooms.fetch_entry(connection, ROOM, b"m.room.member", OURS.encode(), DAY)
        assert known == ("partial", [])


async def test_changes_during_a_request_are_newer(database: Database) -> None:
    """Changes received before the request are older than its response."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        memberships = {"!left:a": "leave", "!joined:a": "join"}
        for number, (room_id, membership) in enumerate(memberships.items()):
            await receive(member(f"$before{number}", OURS, membership)._replace(room_id=room_id))
        change = await rooms.fetch_last_change(connection)
        for number, (room_id, membership) in enumerate(memberships.items()):
            await receive(member(f"$since{number}", OURS, membership)._replace(room_id=room_id + "2"))
        answered = ["!left:a", "!left:a2", "!new:a"]
        await rooms.replace_rooms_of_user(connection, OURS, answered, change)
        assert await rooms.list_joined(connection, OURS.encode()) == ["!joined:a2", "!left:a", "!new:a"]


@pytest.mark.parametrize(
    ("ids", "completeness"),
    [
        (["1", "2", "3"], "complete"),
        (["7", "8", "9"], "complete"),
        (["one", "two", "three"], "complete"),
        (["17000123", "17000456", "17000789"], "complete"),
        (["1", "2", "4"], "partial"),
        (["1", "2", "1"], "partial"),
    ],
)
async def test_a_gap_in_the_transaction_ids_makes_all_rooms_partial(
    database: Database, ids: list[str], completeness: Completeness
) -> None:
    """The database of this node or of the homeserver was restored: events in between are lost, or were
    undone."""
    state = [member("$1", OURS, "join"), entry("$2")]
    async with database.transaction() as connection:
        await Receiver(connection)(*state, id_=ids[0])
    async with database.transaction() as connection:
        receive = Receiver(connection, 1)
        await receive(id_=ids[1])
        await receive.fetch_complete(*state)
        await rooms.replace_rooms_of_user(connection, OURS, [ROOM], 0)
    async with database.transaction() as connection:
        receive = Receiver(connection, 2)
        await receive(entry("$3"), id_=ids[2])
        assert await receive.ids() == (completeness, ["$1", "$3"])
        assert await rooms.are_rooms_loaded(connection, OURS) == (completeness == "complete")


async def test_rooms_without_local_users_are_pruned(database: Database) -> None:
    """Rooms with a joined, invited or knocking local user stay."""
    async with database.transaction() as connection:
        receive = Receiver(connection)
        await receive(member("$1", OURS, "join"))
        await receive(member("$2", OURS, "invite")._replace(room_id="!invited:a"))
        await receive(member("$3", OURS, "leave")._replace(room_id="!left:a"))
        await receive(member("$4", OURS, "ban")._replace(room_id="!banned:a"))
        assert await rooms.prune_rooms(connection) == 2
        kept = [row[0] for row in await connection.fetch("SELECT room_id FROM guest_rooms ORDER BY 1")]
        assert kept == ["!invited:a", ROOM]
        await rooms.delete_room(connection, ROOM)
        assert await rooms.fetch_entries(connection, ROOM, None, None, DAY) is None
