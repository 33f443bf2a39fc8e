"""A configured peer."""

import pytest

from bridge.peers.peer import Peer, PeerProfile


@pytest.mark.parametrize(
    "server", ["kitchen.local", "kitchen.local:7676", "KITCHEN.local", "Kitchen.Local:1"]
)
def test_a_server_s_name_may_have_a_port(server: str) -> None:
    """ "The sender's domain may carry a port"; and names of servers are the same in capitals."""
    assert Peer("kitchen.local").is_named_by(server)


@pytest.mark.parametrize(
    "server",
    [
        "",
        "living.local",
        "kitchen.local.evil",
        "kitchen.local:",
        "kitchen.local:x",
        "kitchen.local/a",
        ":7676",
    ],
)
def test_other_names_are_others_names(server: str) -> None:
    """And what is no name is nobody's."""
    assert not Peer("kitchen.local").is_named_by(server)


def test_a_node_s_id_need_not_be_a_server_s_name() -> None:
    """Published nodes call themselves as they like."""
    assert Peer("node_7").is_named_by("node_7")
    assert Peer("host:7676").is_named_by("host:7676")
    assert not Peer("host:7676").is_named_by("host")


def test_a_key_is_not_printed() -> None:
    """A public key is no secret, but 32 bytes in a log are no help."""
    assert "public_key" not in repr(Peer("kitchen.local", public_key=bytes(32)))


def test_the_profiles_are_called_as_in_the_configuration() -> None:
    """A name that somebody has written into a file stays what it is."""
    assert [str(profile) for profile in PeerProfile] == ["matrix", "cis-1.1"]
