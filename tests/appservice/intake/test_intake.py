"""Receiving transactions: each exactly once, in order, and committed before the response."""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from appservice.intake import intake as module
from appservice.intake.intake import Intake
from appservice.intake.transaction import read
from federation.events.room_event import StreamedEvent
from federation.matrix.errors import MatrixError
from federation.transactions.edu_dispatcher import TypingUsers
from storage.appservice.events import lock_registration
from storage.appservice.rooms import fetch_entries
from storage.database import Database
from storage.federation.edus import fetch_messages
from storage.federation.users import insert_user
from storage.rooms import stream as consumers
from tests.appservice.events import ALICE, GHOST, ROOM, member, message, numbered, redaction, transaction
from tests.appservice.intakes import OURS, IntakeHarness

TYPING = {"type": "m.typing", "room_id": ROOM, "content": {"user_ids": [ALICE]}}
DEVICE = {"type": "m.dummy", "sender": ALICE, "to_user_id": GHOST, "to_device_id": "D", "content": {}}


async def test_stream_keeps_the_order(harness: IntakeHarness) -> None:
    """Within a transaction, and between transactions."""
    assert await harness.receive("1", message("$3"), message("$1"))
    assert await harness.receive("2", message("$2"))
    assert await harness.all() == ["$3", "$1", "$2"]


async def test_repeated_transaction_has_no_effect(harness: IntakeHarness) -> None:
    """The homeserver repeats one whose response was lost."""
    await harness.receive("1", message("$1"), ephemeral=[TYPING])
    assert harness.told == [TypingUsers(ROOM, (ALICE,))]
    assert not await harness.receive("1", message("$1", age=99), ephemeral=[TYPING])
    assert await harness.all() == ["$1"]
    assert len(harness.told) == 1


async def test_repeated_transaction_wakes_readers(harness: IntakeHarness) -> None:
    """The process that committed it may have been killed before it notified them."""
    await harness.receive("1", message("$1"))
    woken: list[list[str]] = []

    def wake(entries: Sequence[StreamedEvent]) -> None:
        woken.append([entry.event.event_id for entry in entries])

    elsewhere = Intake("palaver", harness.database, is_ours=OURS.owns_user, on_events=wake)
    assert not await elsewhere.receive("1", read(transaction(message("$1"))))
    assert woken == [[]]


async def test_readers_receive_the_new_events(harness: IntakeHarness) -> None:
    """In the form in which they would read them; after a redaction they have to read the stream."""
    woken: list[list[StreamedEvent]] = []
    intake = Intake(
        "palaver", harness.database, is_ours=OURS.owns_user, on_events=lambda entries: woken.append(list(entries))
    )
    invite = member("$3", GHOST, "invite")
    await intake.receive("1", read(transaction(message("$1"), message("$2", body="\0"), invite)))
    assert woken == [await harness.entries()]
    await intake.receive("2", read(transaction(message("$1"), message("$4"))))
    assert woken[1:] == [(await harness.entries())[3:]]
    await intake.receive("3", read(transaction(redaction("$r", "$6"))))
    await intake.receive("4", read(transaction(message("$5"), message("$6"))))
    assert woken[3] == []
    await intake.receive("5", read(transaction()))
    assert len(woken) == 4


async def test_event_in_two_transactions_counts_once(harness: IntakeHarness) -> None:
    """Also twice in one transaction; homeservers have done both."""
    await harness.receive("1", message("$1"), message("$1", body="other"))
    assert await harness.receive("2", message("$1"), message("$2"))
    assert await harness.all() == ["$1", "$2"]


async def test_reused_transaction_id_with_other_events(harness: IntakeHarness) -> None:
    """A homeserver restored from a backup reuses ids; no event is lost."""
    await harness.receive("1", message("$1"))
    assert await harness.receive("1", message("$2"))
    assert not await harness.receive("1", message("$2"))
    assert await harness.all() == ["$1", "$2"]


async def test_concurrent_transactions_are_serialised(harness: IntakeHarness, database: Database) -> None:
    """Also by two processes on one database; too many get a rate limit."""
    async with database.transaction() as connection:
        await lock_registration(connection, "palaver")
        sent = [asyncio.create_task(harness.receive("1", message("$1"))) for _ in range(module.MAX_WAITING)]
        while harness.intake._waiting < module.MAX_WAITING:
            await asyncio.sleep(0)
        with pytest.raises(MatrixError) as refused:
            await harness.receive("2", message("$2"))
        assert refused.value.status == 429
        assert not any(task.done() for task in sent)
    assert sorted(await asyncio.gather(*sent)) == [False, False, False, True]
    assert await harness.all() == ["$1"]
    assert harness.intake._waiting == 0


WAITING = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'
"""


async def test_failed_commit_leaves_nothing(harness: IntakeHarness) -> None:
    """503, so that the homeserver repeats it as new."""
    async with harness.database.transaction() as connection:
        await lock_registration(connection, "palaver")
        sent = asyncio.create_task(harness.receive("1", message("$1"), ephemeral=[TYPING]))
        # Outside a transaction, because Postgres repeats the same activity within one.
        async with harness.database.autocommit() as other:
            while not await other.fetchval(WAITING):
                await asyncio.sleep(0.01)
        with pytest.raises(MatrixError) as refused:
            await sent
        assert (refused.value.status, len(harness.reported)) == (503, 1)
    assert harness.told == []
    assert await harness.receive("1", message("$1"), ephemeral=[TYPING])
    assert await harness.all() == ["$1"]
    assert len(harness.told) == 1


async def test_invites_of_ghosts_are_classified(harness: IntakeHarness) -> None:
    """With their stripped state, until they are answered. An invite by a ghost, or of a person, is a timeline
    event."""
    shown = {"type": "m.room.name", "state_key": "", "sender": ALICE, "content": {"name": "Kitchen"}}
    invite = member("$1", GHOST, "invite", unsigned={"invite_room_state": [shown]})
    await harness.receive(
        "1",
        invite,
        member("$2", ALICE, "invite"),
        member("$3", GHOST, "invite", sender="@_agent_other:their.server", room_id="!other:their.server"),
    )
    entries = (await harness.stream.read(0)).entries
    assert [(entry.kind, entry.event.event_id) for entry in entries] == [
        ("invite", "$1"),
        ("timeline", "$2"),
        ("timeline", "$3"),
    ]
    assert entries[0].invite_state == (shown,)
    await harness.receive("2", member("$4", GHOST, "join", sender=GHOST))
    assert await harness.all() == ["$2", "$3", "$4"]


async def test_redaction_before_or_after_its_event(harness: IntakeHarness) -> None:
    """Only in its own room."""
    await harness.receive("1", message("$1"), redaction("$r", "$1"), redaction("$s", "$2"))
    await harness.receive("2", message("$2"), redaction("$t", "$3", room_id="!other:their.server"), message("$3"))
    entries = {entry.event.event_id: entry.event for entry in (await harness.stream.read(0)).entries}
    assert [name for name, event in entries.items() if event.is_redacted] == ["$1", "$2"]
    assert entries["$1"].content == {}
    assert entries["$r"].redacts == "$1"


async def test_to_device_messages_are_stored(harness: IntakeHarness) -> None:
    """Once, for existing ghosts; listeners are notified."""
    async with harness.database.transaction() as connection:
        await insert_user(connection, GHOST, 0)
    others = [{**DEVICE, "to_user_id": user} for user in (ALICE, "@_agent_nobody:their.server")]
    for _ in range(2):
        await harness.receive("1", to_device=[DEVICE, *others])
    kept = await harness.database.read(lambda connection: fetch_messages(connection, GHOST, 10))
    assert [one[1:] for one in kept] == [(GHOST, "D", ALICE, "m.dummy", b"{}")]
    assert len(harness.told) == 3


async def test_skipped_entries_are_reported(harness: IntakeHarness) -> None:
    """The rest is received."""
    await harness.receive("1", 7, message("$1"))
    assert await harness.all() == ["$1"]
    assert harness.reported == ["The homeserver sent entries that could not be parsed: an event is not an object."]


@pytest.mark.parametrize("transaction_id", ["x" * 256, "a\0"])
async def test_invalid_transaction_id_is_refused(harness: IntakeHarness, transaction_id: str) -> None:
    """400 without any effect."""
    with pytest.raises(MatrixError) as refused:
        await harness.receive(transaction_id, message("$1"))
    assert refused.value.status == 400
    assert await harness.all() == []


async def test_text_that_postgres_rejects_is_stored(harness: IntakeHarness) -> None:
    """JSON strings that a text column cannot hold."""
    await harness.receive("1", member("$1", "a\0b", "join"), message("$2", body="\0", type="\0"))
    assert await harness.all() == ["$1", "$2"]


async def test_any_event_is_received(harness: IntakeHarness) -> None:
    """A transaction that the database refused would be repeated for ever."""
    chance = random.Random(7)
    texts = ["", "a", "\0", 'é\u2028\\"{}', "x" * 255, chance.randbytes(127).hex(), chance.randbytes(20_000).hex()]
    values = [*texts, None, True, 7, -1, 1.5, 1e300, 2**53, 2**70, [], {}, [["\0"]], {"\0": {"a": [1.0]}}]
    users = [GHOST, ALICE, "@a:b", f"@{'x' * 250}:b", "@a\0:b"]

    def odd() -> object:
        event = message(f"${chance.randrange(400)}", sender=chance.choice(users))
        for name in chance.sample(["type", "state_key", "origin_server_ts", "unsigned", "redacts"], 3):
            event[name] = chance.choice(values)
        kind = chance.choice(["m.room.member", "m.room.redaction", "m.room.topic", event["type"]])
        event["type"] = kind
        event["content"] = {
            "membership": chance.choice([*values, "join", "invite", "leave", "ban", "knock"]),
            "redacts": chance.choice([*values, f"${chance.randrange(400)}"]),
            "io.palaver.transaction": chance.choice([*values, "0" * 32]),
        }
        if kind == "m.room.member":
            event["state_key"] = chance.choice([*users, *texts])
        for name in chance.choices(list(event), k=chance.choice([0, 0, 0, 1])):
            event[name] = chance.choice(values)
        return event

    await harness.receive("0", member("$join", GHOST, "join"))
    for number in range(1, 60):
        assert await harness.receive(str(number), *[odd() for _ in range(20)])
    known = await harness.database.read(lambda one: fetch_entries(one, ROOM, None, None, timedelta(days=1)))
    assert known is not None
    assert len(known[1]) > 10
    assert len(await harness.entries()) > 100


async def test_read_events_are_pruned(harness: IntakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together with their transactions."""
    monkeypatch.setattr(module, "RETENTION", timedelta(seconds=-1))
    await harness.receive("1", message("$1"))
    assert await harness.intake.prune() == 0
    async with harness.stream.subscription("reader") as subscription:
        (entry,) = await subscription.next()
        async with harness.database.transaction() as connection:
            await subscription.advance(connection, entry.position)
    assert await harness.intake.prune() == 1
    assert await harness.all() == []
    assert (await harness.database.read(consumers.list_cursors))["reader"] == entry.position


PROGRAM = """
import asyncio, sys
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.events import numbered
from tests.appservice.intakes import intake_on

async def main():
    address = DatabaseAddress.from_url(sys.argv[1])
    database = await Database.connect(address, minimum=1)
    async with intake_on(database, address) as harness:
        for number in range(int(sys.argv[2]), 1_000_000):
            is_new = await harness.receive(str(number), *numbered(number))
            print(number, is_new, flush=True)

asyncio.run(main())
"""


async def test_kill_at_any_instant_loses_and_repeats_nothing(harness: IntakeHarness) -> None:
    """A confirmed transaction is stored with its state; any other is stored completely or not at all, and is
    repeated."""
    answered = 0
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, harness.database.address.url, str(answered),
            stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3],
        )  # fmt: skip
        assert process.stdout is not None
        lines: list[list[bytes]] = []
        try:
            while len(lines) < 20:
                lines.append((await process.stdout.readline()).split())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        lines += [line.split() for line in (await process.stdout.read()).splitlines()]
        await process.wait()
        # The next process repeats the last confirmed transaction, as after a lost response.
        answered = int([line for line in lines if len(line) == 2][-1][0])
    for number in range(answered, answered + 3):
        await harness.receive(str(number), *numbered(number))
    assert await harness.all() == [f"${number}.{part}" for number in range(answered + 3) for part in range(5)]
    known = await harness.database.read(lambda one: fetch_entries(one, ROOM, None, None, timedelta(days=1)))
    assert known is not None
    assert [entry.event_id for entry in known[1]] == [f"${answered + 2}.4", f"${answered + 2}.3"]
