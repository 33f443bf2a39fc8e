"""How a configured peer speaks."""

from bridge.connectors.cis.profile import PeerProfile


def test_the_profiles_are_called_as_in_the_configuration() -> None:
    """A name that somebody has written into a file stays what it is."""
    assert [str(profile) for profile in PeerProfile] == ["matrix", "cis-1.1"]
