"""Which broker is spoken with in which way, and in which place there: that of this node alone."""

from typing import Final

from bridge.connectors.offices.broker_address import BrokerAddress
from bridge.connectors.offices.service.broker import Link
from bridge.connectors.offices.service.redis_link import RedisLink
from bridge.connectors.offices.service.zenoh_link import ZenohLink

PLACE: Final = "palaver/offices"


def link_to(address: BrokerAddress, node_id: str) -> Link:
    """LocalError when what it takes is not installed."""
    place = f"{PLACE}/{node_id}"
    return RedisLink(address, place) if address.kind == "redis" else ZenohLink(address, place)
