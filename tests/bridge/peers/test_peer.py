"""A peer."""

import pytest

from bridge.peers.peer import Peer, PeerProfile


@pytest.mark.parametrize("server", ["kitchen.local", "kitchen.local:7676", "KITCHEN.local", "Kitchen.Local:1"])
def test_server_name_with_port(server: str) -> None:
    """ "The sender's domain may carry a port"; comparison ignores case."""
    assert Peer("kitchen.local").is_named_by(server)


@pytest.mark.parametrize(
    "server",
    ["", "living.local", "kitchen.local.evil", "kitchen.local:", "kitchen.local:x", "kitchen.local/a", ":7676"],
)
def test_other_names(server: str) -> None:
    """Invalid names denote no peer."""
    assert not Peer("kitchen.local").is_named_by(server)


def test_node_id_that_is_no_server_name() -> None:
    """Published nodes choose freely."""
    assert Peer("node_7").is_named_by("node_7")
    assert Peer("host:7676").is_named_by("host:7676")
    assert not Peer("host:7676").is_named_by("host")


def test_key_is_not_in_the_repr() -> None:
    """It is public, but useless in a log."""
    assert "public_key" not in repr(Peer("kitchen.local", public_key=bytes(32)))


def test_profile_values() -> None:
    """They are fixed by the configuration format."""
    assert [str(profile) for profile in PeerProfile] == ["matrix", "cis-1.1"]
