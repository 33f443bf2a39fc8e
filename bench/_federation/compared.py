"""A row that compares the Palaver node with the Synapse: one sample function, run on either."""

from collections.abc import Awaitable, Callable
from functools import partial

from bench._federation.servers import NODE, SYNAPSE, Servers
from bench._harness.measurement import Measurement
from bench._harness.row import Row, Side, Unit


def compared(
    name: str, what: str, unit: Unit, sample: Callable[..., Measurement | Awaitable[Measurement]], *, counts: bool
) -> Row[Servers]:
    """`sample` gets the measured server from `measured`."""
    ours = Side("Palaver", partial(sample, measured=NODE))
    other = Side("Synapse", partial(sample, measured=SYNAPSE))
    return Row(name=name, what=what, unit=unit, ours=ours, other=other, counts=counts)
