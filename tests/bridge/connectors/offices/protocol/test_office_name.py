"""Names of offices."""

import pytest

from bridge.connectors.offices.protocol.office import InvalidOfficeName, OfficeName, parse_office_name

LOCAL_NAMES = ("kitchen.local", "there.example")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stove", OfficeName("stove")),
        ("stove@kitchen.local", OfficeName("stove")),
        ("stove@there.example", OfficeName("stove")),
        ("stove@cellar.local:8448", OfficeName("stove", "cellar.local:8448")),
        ("stove@[::1]:7676", OfficeName("stove", "[::1]:7676")),
        # A part that is no valid server name belongs to the office's name.
        ("me@home place", OfficeName("me@home place")),
        ("stove@", OfficeName("stove@")),
        ("a@b c@cellar.local", OfficeName("a@b c", "cellar.local")),
    ],
)
def test_the_node_follows_the_last_at_sign(text: str, expected: OfficeName) -> None:
    """A name of this node does not make the office a remote one."""
    assert parse_office_name(text, LOCAL_NAMES) == expected


@pytest.mark.parametrize("text", ["@cellar.local", " @cellar.local", "a@b@kitchen.local", "a@b@cellar.local"])
def test_ambiguous_and_empty_names_are_invalid(text: str) -> None:
    """No two offices may have the same id."""
    assert isinstance(parse_office_name(text, LOCAL_NAMES), InvalidOfficeName)


def test_an_office_has_one_id() -> None:
    """However a client writes its name; parsing the id gives the same office."""
    ids = {"stove": "stove", "stove@kitchen.local": "stove", "stove@cellar.local": "stove@cellar.local"}
    for text, office_id in ids.items():
        found = parse_office_name(text, LOCAL_NAMES)
        assert isinstance(found, OfficeName)
        assert found.office_id == office_id
        assert parse_office_name(office_id, LOCAL_NAMES) == found
