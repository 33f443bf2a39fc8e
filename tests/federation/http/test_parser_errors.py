"""Errors of aiohttp's parser."""

import pytest
from aiohttp.http_exceptions import BadHttpMessage, BadStatusLine, InvalidHeader, LineTooLong

from federation.http.responses import TOO_MANY_HEADERS, error_of_parser_failure


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LineTooLong(b"/secret", 10), 431),
        (BadHttpMessage(TOO_MANY_HEADERS), 431),
        (BadHttpMessage("Duplicate 'Host' header found."), 400),
        (BadStatusLine("/secret"), 400),
        (InvalidHeader(b"/secret"), 400),
        (None, 400),
    ],
)
def test_parser_errors_are_mapped(error: Exception | None, status: int) -> None:
    """Size limits to 431, all others to 400, without repeating the input."""
    refusal = error_of_parser_failure(error)
    assert refusal.status == status
    assert "secret" not in refusal.text
