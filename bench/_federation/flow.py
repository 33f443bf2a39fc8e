"""The requests of a Synapse while a Palaver node sends to a room faster than it can follow.

Between two Synapses a room forks under load, and the one that receives asks for the state before nearly
every event. Our node makes a chain, in which every event follows one other, and has no more on its way than
is worked off.
"""

from functools import partial
from typing import Any

from bench._federation.servers import NODE, SYNAPSE, Servers
from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Side, Unit

PER_SECOND = 200
SECONDS = 10.0
# The first sample that a full run takes is long enough for all of it; those of a quick run make it short.
_LONGER = 8
ENDPOINTS = ("state_ids", "get_missing_events")


async def _once(subject: Servers, seconds: float) -> dict[str, Any]:
    # It takes long, and once is enough: every sample of every row is read off the same.
    return await subject.runs["flow", SYNAPSE].only(partial(_run, subject, seconds))


async def _run(subject: Servers, seconds: float) -> dict[str, Any]:
    """Return the numbers of sent and received events and of requests."""
    asked = {endpoint: _calls(subject, endpoint) for endpoint in ENDPOINTS}
    lasting = min(SECONDS, _LONGER * seconds)
    took = await subject.ask(SYNAPSE, "flow", source=NODE, rate=PER_SECOND, seconds=lasting)
    return took | {endpoint: _calls(subject, endpoint) - asked[endpoint] for endpoint in ENDPOINTS}


def _calls(subject: Servers, endpoint: str) -> int:
    return len(subject.synapse.requests_made(endpoint, to=subject.node_name))


async def sent(subject: Servers, seconds: float) -> Measurement:
    """Events that the node has accepted from its user, committed and put into its outbox."""
    flow = await _once(subject, seconds)
    return rate(flow["sent"], flow["sending"])


async def received(subject: Servers, seconds: float) -> Measurement:
    """Events that the Synapse has processed."""
    flow = await _once(subject, seconds)
    return rate(flow["read"], flow["reading"])


async def calls(subject: Servers, seconds: float, *, endpoint: str) -> Measurement:
    """Requests of the Synapse to the node in the meantime."""
    flow = await _once(subject, seconds)
    return Measurement(flow[endpoint], flow["read"], flow["reading"])


def rows() -> list[Row[Servers]]:
    """The event rates first, then the numbers that should be 0."""
    what = f"{PER_SECOND} messages per second from Palaver to a Synapse"
    return [
        Row(name="flow-sent", what=f"{what}: sent", ours=Side("Palaver", sent)),
        Row(name="flow-received", what=f"{what}: readable there", ours=Side("Synapse", received)),
        *(
            Row(
                name=f"flow-{endpoint}",
                what=f"{what}: {endpoint} asked of us",
                unit=Unit.CALLS,
                ours=Side("Synapse", partial(calls, endpoint=endpoint)),
            )
            for endpoint in ENDPOINTS
        ),
    ]
