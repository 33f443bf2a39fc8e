"""A row that compares our node with the Synapse: one sample, taken of either."""

from collections.abc import Awaitable, Callable
from functools import partial

from bench._federation.servers import NODE, SYNAPSE, Servers
from bench._harness.measurement import Measurement
from bench._harness.row import Row, Side, Unit


def compared(
    name: str,
    what: str,
    unit: Unit,
    sample: Callable[..., Measurement | Awaitable[Measurement]],
    *,
    counts: bool,
) -> Row[Servers]:
    """`sample` is told by `measured` of which of them."""
    ours = Side("Palaver", partial(sample, measured=NODE))
    other = Side("Synapse", partial(sample, measured=SYNAPSE))
    return Row(name=name, what=what, unit=unit, ours=ours, other=other, counts=counts)
