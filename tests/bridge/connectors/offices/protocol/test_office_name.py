"""What an office is called."""

import pytest

from bridge.connectors.offices.protocol.office import NoOffice, OfficeName, office_name

OWN = ("kitchen.local", "there.example")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("stove", OfficeName("stove")),
        ("stove@kitchen.local", OfficeName("stove")),
        ("stove@there.example", OfficeName("stove")),
        ("stove@cellar.local:8448", OfficeName("stove", "cellar.local:8448")),
        ("stove@[::1]:7676", OfficeName("stove", "[::1]:7676")),
        # What could be no node is part of the name.
        ("me@home place", OfficeName("me@home place")),
        ("stove@", OfficeName("stove@")),
        ("a@b c@cellar.local", OfficeName("a@b c", "cellar.local")),
    ],
)
def test_the_node_stands_behind_the_last_at(said: str, expected: OfficeName) -> None:
    """One of our own names is no other node."""
    assert office_name(said, OWN) == expected


@pytest.mark.parametrize("said", ["@cellar.local", " @cellar.local", "a@b@kitchen.local", "a@b@cellar.local"])
def test_what_nothing_can_be_called(said: str) -> None:
    """No two offices are known by the same name."""
    assert isinstance(office_name(said, OWN), NoOffice)


def test_the_same_office_has_one_id() -> None:
    """However it was called; and read again it is the same office."""
    ids = {"stove": "stove", "stove@kitchen.local": "stove", "stove@cellar.local": "stove@cellar.local"}
    for said, office_id in ids.items():
        found = office_name(said, OWN)
        assert isinstance(found, OfficeName)
        assert found.office_id == office_id
        assert office_name(office_id, OWN) == found
