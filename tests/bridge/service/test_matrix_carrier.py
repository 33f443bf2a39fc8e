"""What a node needs of whoever carries its Matrix end, and the other way round."""

from bridge.service.carried_by_guest import CarriedByGuest
from bridge.service.carried_by_homeserver import CarriedByHomeserver
from bridge.service.matrix_carrier import Carrier, Inhabited
from bridge.service.node_centre import NodeCentre


def test_the_two_fit_together() -> None:
    """mypy compares each operation with what the protocols want; here that none of them is missing."""
    carriers: list[type[Carrier]] = [CarriedByHomeserver, CarriedByGuest]
    node: type[Inhabited] = NodeCentre
    for protocol, made in (*((Carrier, carrier) for carrier in carriers), (Inhabited, node)):
        wanted = {name for name in vars(protocol) if not name.startswith("_")}
        assert wanted <= set(dir(made))
