"""What the room graph offers and needs, as types."""

from federation.service.key_ring import KeyRing
from federation.service.room_ports import Keys


def needs_keys(keys: Keys) -> Keys:
    return keys


def test_the_key_ring_is_what_the_room_graph_needs() -> None:
    """mypy compares the signatures here; at run time there is nothing left but the name."""
    assert issubclass(KeyRing, object)
    assert callable(KeyRing.keys_for)
    assert needs_keys.__annotations__["keys"] is Keys
