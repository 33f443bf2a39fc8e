"""Protocol versions."""

import pytest

from bridge.connectors.offices.protocol.versions import (
    ProtocolLine,
    ProtocolVersion,
    is_accepted,
    parse_line,
    parse_version,
)

LINES = [ProtocolLine(0, 2), ProtocolLine(0, 4), ProtocolLine(1, 3)]


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "a.b.c", "1.2.-3", " 1.2.3", "1.2.3\n", "1.2.٣", "1..3"])
def test_only_three_integers_are_a_version(text: str) -> None:
    """Other digits, signs and spaces are not accepted."""
    assert parse_version(text) is None
    assert parse_version("1.2." + "9" * 10) is None


def test_parsing_and_formatting_are_inverse() -> None:
    version = parse_version("0.4.12")
    assert version == ProtocolVersion(0, 4, 12)
    assert str(version) == "0.4.12"
    assert parse_line("0.4") == ProtocolLine(0, 4)
    assert parse_line("0.4.1") is None
    assert str(ProtocolLine(0, 4)) == "0.4"


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
def test_compatibility_of_versions(text: str, accepted: bool) -> None:
    """MAJOR equal; with MAJOR 0 the MINOR must be equal; from 1 on client MINOR ≤ server MINOR."""
    version = parse_version(text)
    assert version is not None
    assert is_accepted(version, LINES) is accepted
