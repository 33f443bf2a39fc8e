"""The state of rooms that the node knows as a guest."""

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
    return StateEntry(
        ROOM, b"m.room.member", user.encode(), event_id, user, 1, b"{}", False, membership, is_ours
    )


@dataclass
class Told:
    """As the intake writes it."""

    connection: Connection
    count: int = 0

    async def __call__(
        self, *entries: StateEntry, redacts: str | None = None, id_: str | None = None
    ) -> None:
        self.count += 1
        ids = [one.event_id for one in entries] + ([f"$r{self.count}"] if redacts else [])
        rows = [NewEvent(event_id, ROOM, "timeline", None, None, b"{}") for event_id in ids]
        digest = self.count.to_bytes(32)
        redactions = [Redaction(redacts, f"$r{self.count}", ROOM)] if redacts else []
        taken = NewTransaction("palaver", id_ or str(self.count), digest, rows, entries, redactions)
        assert (await receive_transaction(self.connection, taken)).is_new

    async def whole(self, *entries: StateEntry) -> None:
        begun = await rooms.begin_state_fetch(self.connection, ROOM)
        assert begun is not None
        assert await rooms.merge_state(self.connection, ROOM, begun, entries)

    async def ids(self, *, age: timedelta = DAY) -> tuple[Completeness, list[str]]:
        known = await rooms.fetch_entries(self.connection, ROOM, None, None, age)
        assert known is not None
        return known[0], [one.event_id for one in known[1]]


async def test_a_room_is_known_when_one_of_ours_is_there(database: Database) -> None:
    """With what else comes in the same transaction, the last of each entry; other rooms are nobody's."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(entry("$1"), member("$2", ALICE, "join"))
        assert await rooms.fetch_entries(connection, ROOM, None, None, DAY) is None
        await told(entry("$3"), member("$4", OURS, "invite"), entry("$5"), member("$6", OURS, "join"))
        assert await told.ids() == ("partial", ["$6", "$5"])
        known = await rooms.fetch_entry(connection, ROOM, b"m.room.topic", b"", DAY)
        assert known == ("partial", [CachedEntry("$5", b"m.room.topic", b"", ALICE, 1, b"{}", False)])
        assert await rooms.fetch_entry(connection, ROOM, b"m.room.name", b"", DAY) == ("partial", [])
        assert await rooms.fetch_entry(connection, "!other:a", b"m.room.name", b"", DAY) is None
        assert await rooms.list_local_members(connection, ROOM, 10) == [OURS]
        assert await rooms.list_joined(connection, OURS.encode()) == [ROOM]
        assert await rooms.list_joined(connection, ALICE.encode()) == []


async def test_an_event_that_came_before_changes_nothing(database: Database) -> None:
    """Homeservers have been known to send some twice."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"), entry("$2"))
        await told(entry("$3"))
        await told(entry("$2"))
        assert await told.ids() == ("partial", ["$1", "$3"])


async def test_what_was_fetched_is_the_state_but_for_what_came_since(database: Database) -> None:
    """It is whole until it is old, or doubted."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"), entry("$2"), entry("$3", "m.room.name"))
        begun = await rooms.begin_state_fetch(connection, ROOM)
        assert begun is not None
        await told(entry("$4", ts=9))
        fetched = [member("$1", OURS, "join"), entry("$2"), entry("$5", "io.new")]
        assert await rooms.merge_state(connection, ROOM, begun, fetched)
        assert await told.ids() == ("complete", ["$5", "$1", "$4"])
        assert await told.ids(age=OVER) == ("stale", ["$5", "$1", "$4"])
        assert await rooms.begin_state_fetch(connection, "!other:a") is None
        begun = await rooms.begin_state_fetch(connection, ROOM)
        assert begun is not None
        await rooms.mark_incomplete(connection, ROOM)
        assert await told.ids() == ("partial", ["$5", "$1", "$4"])
        assert not await rooms.merge_state(connection, ROOM, begun, fetched)
        assert await told.ids() == ("partial", ["$5", "$1", "$2"])


async def test_only_what_has_changed_is_written(database: Database) -> None:
    """A room is fetched again every day."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"), entry("$2"))
        before = await rooms.begin_state_fetch(connection, ROOM)
        assert before is not None
        await told.whole(member("$1", OURS, "join"), entry("$2"))
        changes = [row[0] for row in await connection.fetch("SELECT change FROM guest_state")]
        assert max(changes) <= before.change
        await told.whole(member("$1", OURS, "join"), entry("$2", content=b'{"redacted":1}'))
        known = await rooms.fetch_entry(connection, ROOM, b"m.room.topic", b"", DAY)
        assert known is not None
        assert known[1][0].content == b'{"redacted":1}'


@pytest.mark.parametrize(
    ("ts", "completeness"), [(4, "partial"), (5, "complete"), (6, "complete")], ids=["older", "same", "newer"]
)
async def test_what_is_older_than_what_was_fetched_is_doubtful(
    database: Database, ts: int, completeness: Completeness
) -> None:
    """It is told late, or written by a clock that is slow."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"))
        await told.whole(member("$1", OURS, "join"), entry("$2", ts=5))
        await told(entry("$3", ts=ts))
        assert await told.ids() == (completeness, ["$1", "$3"])
        await told.whole(member("$1", OURS, "join"), entry("$4", ts=5))
        await told(entry("$5", ts=1), entry("$4", ts=5))
        assert await told.ids() == ("complete", ["$1", "$4"])


async def test_a_redacted_entry_is_doubtful(database: Database) -> None:
    """Whether it is known, comes at the same time, or later."""
    async with database.transaction() as connection:
        told = Told(connection)
        state = [member("$1", OURS, "join"), entry("$2")]
        await told(*state)
        await told.whole(*state)
        await told(redacts="$other")
        assert (await told.ids())[0] == "complete"
        await told(redacts="$2")
        assert (await told.ids())[0] == "partial"
        await told.whole(*state)
        await told(entry("$3"), redacts="$3")
        assert (await told.ids())[0] == "partial"
        await told.whole(*state)
        await insert_redactions(connection, [("$4", "$r")])
        await told(entry("$4"))
        assert (await told.ids())[0] == "partial"


async def test_what_we_did_stands_until_it_is_told(database: Database) -> None:
    """What is told before was before; after its time is over anything is newer."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"), entry("$2"))
        await told.whole(member("$1", OURS, "join"), entry("$2"))
        await rooms.record_change(connection, "palaver", entry("$own"), SOON)
        await told(entry("$3"))
        assert await told.ids() == ("complete", ["$1", "$own"])
        await told(entry("$4"), entry("$own"), entry("$5"))
        assert await told.ids() == ("complete", ["$1", "$5"])
        await rooms.record_change(connection, "palaver", entry("$own"), SOON)
        assert await told.ids() == ("complete", ["$1", "$5"])
        await rooms.record_change(connection, "palaver", entry("$never"), OVER)
        assert await told.ids() == ("partial", ["$1", "$never"])
        await told(entry("$6"))
        assert await told.ids() == ("complete", ["$1", "$6"])
        await rooms.record_change(connection, "palaver", entry("$never"), OVER)
        await told.whole(member("$1", OURS, "join"), entry("$6"))
        assert await told.ids() == ("complete", ["$1", "$6"])


async def test_a_room_is_known_by_what_we_do_there(database: Database) -> None:
    """We have just made it, and have been told nothing yet."""
    async with database.transaction() as connection:
        await rooms.record_change(connection, "palaver", member("$1", OURS, "join"), SOON)
        assert await Told(connection).ids() == ("partial", ["$1"])
        assert await rooms.list_local_members(connection, ROOM, 10) == [OURS]


async def test_a_room_that_nobody_of_ours_is_in_is_doubtful(database: Database) -> None:
    """What happens there is not told. While another one is there all is."""
    other = "@_v:a"
    async with database.transaction() as connection:
        told = Told(connection)
        state = [member("$1", OURS, "join"), member("$2", other, "join")]
        await told(*state)
        await told.whole(*state)
        await told(member("$3", OURS, "leave"))
        assert (await told.ids())[0] == "complete"
        await told(member("$4", OURS, "join"), member("$5", other, "ban"))
        assert (await told.ids())[0] == "complete"
        await told(member("$6", OURS, "leave"), entry("$7"), member("$8", OURS, "join"))
        assert (await told.ids())[0] == "partial"
        await told.whole(member("$8", OURS, "join"), member("$5", other, "ban"))
        await rooms.record_change(connection, "palaver", member("$9", OURS, "leave"), SOON)
        assert (await told.ids())[0] == "partial"
        assert await rooms.list_local_members(connection, ROOM, 10) == []
        assert await rooms.fetch_local_membership(connection, ROOM, OURS.encode()) == "leave"
        assert await rooms.fetch_local_membership(connection, ROOM, ALICE.encode()) is None


async def test_invites_are_listed_with_what_is_shown(database: Database) -> None:
    """Until something else is known of the user there."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "invite")._replace(sender=ALICE, invite_state=b"[]"))
        assert await rooms.list_invites(connection, OURS.encode()) == [(ROOM, ALICE, "$1", b"[]")]
        await told(member("$2", OURS, "join"))
        assert await rooms.list_invites(connection, OURS.encode()) == []


async def test_a_user_who_is_not_there_is_taken_out(database: Database) -> None:
    """Unless it came back since."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"))
        begun = await rooms.begin_state_fetch(connection, ROOM)
        assert begun is not None
        await rooms.delete_local_member(connection, ROOM, OURS.encode(), StateFetch(0, begun.change - 1))
        assert await rooms.list_local_members(connection, ROOM, 10) == [OURS]
        await rooms.delete_local_member(connection, ROOM, OURS.encode(), begun)
        assert await rooms.list_local_members(connection, ROOM, 10) == []


async def test_a_user_is_adopted_with_all_its_rooms(database: Database) -> None:
    """Nothing is known of them but that."""
    async with database.transaction() as connection:
        assert not await rooms.are_rooms_loaded(connection, OURS)
        await rooms.replace_rooms_of_user(connection, OURS, [ROOM, ROOM], 0)
        assert await rooms.are_rooms_loaded(connection, OURS)
        assert await rooms.list_joined(connection, OURS.encode()) == [ROOM]
        known = await rooms.fetch_entry(connection, ROOM, b"m.room.member", OURS.encode(), DAY)
        assert known == ("partial", [])


async def test_what_was_told_while_it_was_asked_is_newer(database: Database) -> None:
    """What was told before is older than the answer."""
    async with database.transaction() as connection:
        told = Told(connection)
        memberships = {"!left:a": "leave", "!joined:a": "join"}
        for number, (room_id, membership) in enumerate(memberships.items()):
            await told(member(f"$before{number}", OURS, membership)._replace(room_id=room_id))
        change = await rooms.fetch_last_change(connection)
        for number, (room_id, membership) in enumerate(memberships.items()):
            await told(member(f"$since{number}", OURS, membership)._replace(room_id=room_id + "2"))
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
async def test_what_is_known_is_doubted_when_the_count_is_out_of_step(
    database: Database, ids: list[str], completeness: Completeness
) -> None:
    """Our database was restored, or the homeserver's: what was told in between is lost, or was never so."""
    state = [member("$1", OURS, "join"), entry("$2")]
    async with database.transaction() as connection:
        await Told(connection)(*state, id_=ids[0])
    async with database.transaction() as connection:
        told = Told(connection, 1)
        await told(id_=ids[1])
        await told.whole(*state)
        await rooms.replace_rooms_of_user(connection, OURS, [ROOM], 0)
    async with database.transaction() as connection:
        told = Told(connection, 2)
        await told(entry("$3"), id_=ids[2])
        assert await told.ids() == (completeness, ["$1", "$3"])
        assert await rooms.are_rooms_loaded(connection, OURS) == (completeness == "complete")


async def test_rooms_that_ours_have_left_are_forgotten(database: Database) -> None:
    """Those in which one is or is invited stay."""
    async with database.transaction() as connection:
        told = Told(connection)
        await told(member("$1", OURS, "join"))
        await told(member("$2", OURS, "invite")._replace(room_id="!invited:a"))
        await told(member("$3", OURS, "leave")._replace(room_id="!left:a"))
        await told(member("$4", OURS, "ban")._replace(room_id="!banned:a"))
        assert await rooms.prune_rooms(connection) == 2
        kept = [row[0] for row in await connection.fetch("SELECT room_id FROM guest_rooms ORDER BY 1")]
        assert kept == ["!invited:a", ROOM]
        await rooms.delete_room(connection, ROOM)
        assert await rooms.fetch_entries(connection, ROOM, None, None, DAY) is None
