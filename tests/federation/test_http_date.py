"""The dates of HTTP."""

from datetime import UTC, datetime

import pytest

from federation.http_date import read_http_date


def test_a_date_is_read() -> None:
    """RFC 9110, 5.6.7."""
    date = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
    assert read_http_date(" Sun, 06 Nov 1994 08:49:37 GMT ") == date


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
    ],
)
def test_what_is_none_is_none(text: str) -> None:
    """Whatever a server writes there; the obsolete forms are not read."""
    assert read_http_date(text) is None
