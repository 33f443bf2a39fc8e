"""The handshake of versions."""

import json

from bridge.connectors.offices.protocol.versions import Accepted, Line, ProtocolVersion, Refused, judge

LINES = [Line(0, 3), Line(0, 2), Line(0, 4)]


def refused(*given: str, lines: list[Line] | None = None) -> tuple[object, dict[str, str]]:
    """The body, and the headers beside those that every answer has."""
    judged = judge(given, lines or LINES, accept_unversioned=False)
    assert isinstance(judged, Refused)
    headers = dict(judged.headers)
    assert headers.pop("content-type") == "application/json"
    # Without it a client may see a broken connection instead of the code.
    assert headers.pop("content-length") == str(len(judged.body))
    return json.loads(judged.body), headers


def test_a_version_of_one_of_the_lines_is_accepted() -> None:
    """Whatever its patch; the first one given counts."""
    assert judge(["0.3.7", "9.9.9"], LINES, accept_unversioned=False) == Accepted(ProtocolVersion(0, 3, 7))


def test_who_says_no_version_is_of_before_there_were_any() -> None:
    """Accepted where the configuration says so."""
    assert judge([], LINES, accept_unversioned=True) == Accepted(None)
    assert refused() == ({"code": 400, "message": "Missing a2c_version query parameter"}, {})


def test_what_is_no_version_is_refused_in_the_published_words() -> None:
    """With what was said; not all of it, if it is long."""
    assert refused("abc") == ({"code": 400, "message": "Invalid a2c_version: Invalid version: abc"}, {})
    body, _ = refused("x" * 100_000)
    assert len(str(body)) < 200


def test_another_line_is_refused_with_what_would_do() -> None:
    """The smallest and the largest that there are."""
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
    body, _ = refused("0.3.1", lines=[Line(0, 4)])
    assert body == {
        "code": 4008,
        "message": "Protocol version mismatch",
        "server_version": "0.4.0",
        "client_version": "0.3.1",
        "min_supported": "0.4.0",
        "max_supported": "0.4.999",
    }
