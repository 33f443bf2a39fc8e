"""What `/.well-known/matrix/server` of another server says, and how long that holds.

Server-server API, "Resolving server names", step 3.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from yarl import URL

from federation.client.server_discovery import LONGEST, WellKnownAnswer
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.identifiers import is_server_name

MAX_BYTES: Final = 50 * 1024
MOST_REDIRECTS: Final = 5
DEFAULT: Final = 24 * 3600.0
"""Seconds. "use a sensible default when headers are not present. The recommended sensible default is 24
hours.\""""
SHORTEST: Final = 5 * 60.0
"""As in Synapse: a server that forbids keeping it at all would be asked before every single request."""
LONGEST_FAILURE: Final = 3600.0
"""Seconds. "Errors are recommended to be cached for up to an hour.\""""

_MAX_AGE: Final = re.compile(r'max-age\s*=\s*"?(\d{1,10})"?', re.IGNORECASE | re.ASCII)


def first_url(host: str, port: int = 443) -> URL:
    return URL.build(scheme="https", host=host, port=port, path="/.well-known/matrix/server")


def next_url(current: URL, location: str | None) -> URL | None:
    """Where a redirect leads; None when it is not followed: to anything but https."""
    if location is None:
        return None
    try:
        target = current.join(URL(location))
        port = target.port
    except ValueError:
        return None
    if target.scheme != "https" or not target.raw_host or target.user is not None or not port:
        return None
    return target.with_fragment(None)


def read(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime, failures: int = 0
) -> WellKnownAnswer:
    """What an answer says. `failures`: how often in a row there was no valid one before.

    `headers` finds its names in any case, as HTTP does.
    """
    if status != 200:
        # A client's mistake (there is no such file) is an answer; a server's is none.
        return no_answer(f"answered {status}", failures, failed=status >= 500 or status == 429)
    delegated = delegated_server(body)
    if delegated is None:
        problem = "answered with something that is not JSON with a server name in m.server"
        return no_answer(problem, failures, failed=False)
    return WellKnownAnswer(delegated, lifetime(headers, now))


def no_answer(problem: str, failures: int = 0, *, failed: bool = True) -> WellKnownAnswer:
    """ "servers are encouraged to exponentially back off for repeated failures" """
    return WellKnownAnswer(None, min(SHORTEST * 2 ** min(failures, 10), LONGEST_FAILURE), failed, problem)


def delegated_server(body: bytes) -> str | None:
    """`m.server`, if the body is what it should be."""
    if len(body) > MAX_BYTES:
        return None
    try:
        content = decode(body)
    except NotJson:
        return None
    server = content.get("m.server") if isinstance(content, dict) else None
    return server if isinstance(server, str) and is_server_name(server) else None


def lifetime(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds that a valid answer may be kept: what `Cache-Control` says, else `Expires`, within bounds."""
    return min(max(_asked_for(headers, now), SHORTEST), LONGEST)


def _asked_for(headers: Mapping[str, str], now: datetime) -> float:
    control = headers.get("Cache-Control", "")
    if re.search(r"\bno-(store|cache)\b", control, re.IGNORECASE):
        return 0.0
    if max_age := _MAX_AGE.search(control):
        return float(max_age[1])
    expires = headers.get("Expires")
    if expires is None:
        return DEFAULT
    date = http_date(expires)
    # RFC 9111, 5.3: "A cache recipient MUST interpret invalid date formats […] as representing a time in the
    # past".
    return 0.0 if date is None else (date - now).total_seconds()


def http_date(text: str) -> datetime | None:
    """RFC 9110, 5.6.7, in any of its three forms, of which one does not name the zone."""
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
