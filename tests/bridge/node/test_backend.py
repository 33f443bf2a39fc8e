"""What a node needs of whoever carries its Matrix end."""

from bridge.node.appservice_backend import CarriedByGuest
from bridge.node.backend import Carrier
from bridge.node.homeserver_backend import CarriedByHomeserver


def test_the_two_fit() -> None:
    """mypy compares each operation with what the protocol wants; here that none of them is missing."""
    carriers: list[type[Carrier]] = [CarriedByHomeserver, CarriedByGuest]
    wanted = {name for name in vars(Carrier) if not name.startswith("_")}
    assert all(wanted <= set(dir(carrier)) for carrier in carriers)
