"""The version handshake."""

import json

from bridge.connectors.offices.protocol.versions import (
    AcceptedVersion,
    ProtocolLine,
    ProtocolVersion,
    VersionRefusal,
    check_version,
)

LINES = [ProtocolLine(0, 3), ProtocolLine(0, 2), ProtocolLine(0, 4)]


def refused(*values: str, lines: list[ProtocolLine] | None = None) -> tuple[object, dict[str, str]]:
    """The body, and the headers except those that every refusal has."""
    refusal = check_version(values, lines or LINES, accept_unversioned=False)
    assert isinstance(refusal, VersionRefusal)
    headers = dict(refusal.headers)
    assert headers.pop("content-type") == "application/json"
    # Without it, a client may report a connection error instead of the code.
    assert headers.pop("content-length") == str(len(refusal.body))
    return json.loads(refusal.body), headers


def test_a_version_of_one_of_the_lines_is_accepted() -> None:
    """With any patch number. The first of several values counts."""
    assert check_version(["0.3.7", "9.9.9"], LINES, accept_unversioned=False) == AcceptedVersion(
        ProtocolVersion(0, 3, 7)
    )


def test_a_missing_version_is_accepted_if_configured() -> None:
    """Clients from before the handshake send none."""
    assert check_version([], LINES, accept_unversioned=True) == AcceptedVersion(None)
    assert refused() == ({"code": 400, "message": "Missing a2c_version query parameter"}, {})


def test_an_invalid_version_is_refused_with_the_published_message() -> None:
    """The message repeats the version, but not all of a long one."""
    assert refused("abc") == ({"code": 400, "message": "Invalid a2c_version: Invalid version: abc"}, {})
    body, _ = refused("x" * 100_000)
    assert len(str(body)) < 200


def test_the_refusal_of_another_line_names_the_supported_range() -> None:
    """From the smallest line to the largest."""
    body, headers = refused("0.5.1")
    assert headers == {"x-a2c-error-code": "4008"}
    assert body == {
        "code": 4008,
        "message": "Protocol version mismatch",
        "server_version": "0.4.0",
        "client_version": "0.5.1",
        "min_supported": "0.2.0",
        "max_supported": "0.4.999",
    }
    body, _ = refused("0.3.1", lines=[ProtocolLine(0, 4)])
    assert body == {
        "code": 4008,
        "message": "Protocol version mismatch",
        "server_version": "0.4.0",
        "client_version": "0.3.1",
        "min_supported": "0.4.0",
        "max_supported": "0.4.999",
    }
