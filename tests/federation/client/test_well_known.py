"""Server-server API, "Resolving server names", step 3: parsing and caching."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from yarl import URL

from federation.client.well_known import (
    DEFAULT_LIFETIME,
    MAX_BYTES,
    MAX_FAILURE_LIFETIME,
    MIN_LIFETIME,
    lifetime,
    no_delegation,
    parse_delegated_server,
    parse_response,
    redirect_url,
    well_known_url,
)

NOW = datetime(2026, 7, 31, 12, 0, 0, tzinfo=UTC)
HOUR = 3600.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, DEFAULT_LIFETIME),
        ({"cache-control": "max-age=7200"}, 2 * HOUR),
        ({"Cache-Control": 'public, MAX-AGE = "7200"'}, 2 * HOUR),
        ({"Cache-Control": "max-age=7200", "Expires": "0"}, 2 * HOUR),
        ({"Cache-Control": "max-age=1"}, MIN_LIFETIME),
        ({"Cache-Control": "max-age=9999999999"}, 48 * HOUR),
        ({"Cache-Control": "max-age=99999999999999999999"}, 48 * HOUR),
        ({"Cache-Control": "no-store"}, MIN_LIFETIME),
        ({"Cache-Control": "no-cache, max-age=7200"}, MIN_LIFETIME),
        ({"Cache-Control": "max-age=-1"}, DEFAULT_LIFETIME),
        ({"Cache-Control": "public"}, DEFAULT_LIFETIME),
        ({"Expires": "Fri, 31 Jul 2026 15:00:00 GMT"}, 3 * HOUR),
        ({"Expires": "Friday, 31-Jul-26 15:00:00 GMT"}, 3 * HOUR),
        ({"Expires": "Fri Jul 31 15:00:00 2026"}, 3 * HOUR),
        ({"Expires": "Fri, 31 Jul 2026 11:00:00 GMT"}, MIN_LIFETIME),
        ({"Expires": "Fri, 31 Jul 2099 11:00:00 GMT"}, 48 * HOUR),
        ({"Expires": "0"}, MIN_LIFETIME),
        ({"Expires": "Fri, 31 Foo 2026 11:00:00 GMT"}, MIN_LIFETIME),
        ({"Expires": "Fri, 99 Jul 2026 11:00:00 GMT"}, MIN_LIFETIME),
        ({"Expires": "Fri, 31 Jul 2026 99:00:00 GMT"}, MIN_LIFETIME),
    ],
)
def test_the_lifetime_of_a_response(headers: dict[str, str], expected: float) -> None:
    """By its headers, else 24 hours; at least 5 minutes as in Synapse, at most 48 hours."""
    assert lifetime(CIMultiDict(headers), NOW) == expected


@given(control=st.text(), expires=st.text())
def test_no_header_breaks_the_bounds(control: str, expires: str) -> None:
    """Whatever a server sends."""
    assert MIN_LIFETIME <= lifetime({"Cache-Control": control, "Expires": expires}, NOW) <= 48 * HOUR


def test_failures_are_cached_longer_each_time() -> None:
    """ "Errors are recommended to be cached for up to an hour, and servers are encouraged to exponentially
    back off for repeated failures." """
    kept = [no_delegation("is away", failures).lifetime for failures in range(20)]
    assert kept[:4] == [300.0, 600.0, 1200.0, 2400.0]
    assert set(kept[4:]) == {MAX_FAILURE_LIFETIME}


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, b"{}", "answered 404"),
        (200, b"<html>", "answered with something that is not JSON with a server name in m.server"),
    ],
)
def test_the_problem_of_a_response_is_reported(status: int, body: bytes, problem: str) -> None:
    """For the operator of that server; it does not affect the result."""
    answer = parse_response(status, {}, body, NOW)
    assert answer.problem == problem
    assert answer == no_delegation("anything else", failed=False)
    assert parse_response(503, {}, b"", NOW).failed


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"m.server": 7}',
        b'{"m.server": "a b"}',
        b'{"m.server": ""}',
        b'{"m.server": "https://a.test"}',
        b'{"m.server": "a.test", "x": NaN}',
        b'{"m.server": "a.test", "x": "' + b"x" * MAX_BYTES + b'"}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_an_invalid_response_delegates_nothing(body: bytes) -> None:
    """ "bad JSON, missing properties, non-200 response, etc": it also ends an older delegation."""
    assert parse_delegated_server(body) is None
    answer = parse_response(200, {}, body, NOW)
    assert answer.delegated is None
    assert not answer.failed
    assert answer.lifetime <= MAX_FAILURE_LIFETIME


def test_a_valid_response() -> None:
    """Further properties are ignored."""
    answer = parse_response(200, {"Cache-Control": "max-age=7200"}, b'{"m.server": "b.test:443", "x": 1.5}', NOW)
    assert (answer.delegated, answer.lifetime, answer.failed) == ("b.test:443", 7200.0, False)


@pytest.mark.parametrize(
    ("status", "failed"), [(404, False), (403, False), (204, False), (429, True), (500, True), (503, True)]
)
def test_a_missing_file_is_no_failure(status: int, *, failed: bool) -> None:
    """Unlike an error of the server."""
    answer = parse_response(status, {}, b'{"m.server": "b.test"}', NOW)
    assert (answer.delegated, answer.failed) == (None, failed)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("https://b.test/other", "https://b.test/other"),
        ("/elsewhere", "https://a.test/elsewhere"),
        ("https://b.test:8443/#part", "https://b.test:8443/"),
        ("http://a.test/.well-known/matrix/server", None),
        ("ftp://a.test/", None),
        ("file:///etc/passwd", None),
        ("https://user:password@b.test/", None),
        ("https://b.test:99999/", None),
        ("https:///here", "https://a.test/here"),
        ("https://[::1", None),
        (None, None),
    ],
)
def test_redirects_must_be_https(location: str | None, expected: str | None) -> None:
    """A response over plain HTTP could be forged."""
    target = redirect_url(well_known_url("a.test"), location)
    assert target == (None if expected is None else URL(expected))


@given(location=st.text())
def test_invalid_redirects_raise_nothing(location: str) -> None:
    """Whatever a server sends."""
    target = redirect_url(well_known_url("a.test"), location)
    assert target is None or (target.scheme == "https" and target.host)


def test_the_url_of_a_well_known() -> None:
    """Port 443 of the host itself."""
    assert str(well_known_url("a.test")) == "https://a.test/.well-known/matrix/server"
