"""The protocol's version."""

import pytest

from bridge.connectors.offices.protocol.versions import Line, ProtocolVersion, is_accepted, parse, parse_line

LINES = [Line(0, 2), Line(0, 4), Line(1, 3)]


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "1.2.3.4", "a.b.c", "1.2.-3", " 1.2.3", "1.2.3\n", "1.2.٣", "1..3"]
)
def test_only_three_integers_are_one(text: str) -> None:
    """Nothing that merely looks like them."""
    assert parse(text) is None
    assert parse("1.2." + "9" * 10) is None


def test_a_version_is_written_as_it_is_read() -> None:
    version = parse("0.4.12")
    assert version == ProtocolVersion(0, 4, 12)
    assert str(version) == "0.4.12"
    assert parse_line("0.4") == Line(0, 4)
    assert parse_line("0.4.1") is None
    assert str(Line(0, 4)) == "0.4"


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("0.2.0", True),
        ("0.2.99", True),
        ("0.3.0", False),
        ("0.4.1", True),
        ("1.3.0", True),
        ("1.2.7", True),
        ("1.4.0", False),
        ("2.3.0", False),
    ],
)
def test_before_the_first_release_the_minor_counts_too(text: str, accepted: bool) -> None:
    """MAJOR equal; with MAJOR 0 the MINOR must be equal; from 1 on client MINOR ≤ server MINOR."""
    version = parse(text)
    assert version is not None
    assert is_accepted(version, LINES) is accepted
