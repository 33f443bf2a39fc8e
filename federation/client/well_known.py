"""Parses responses of `/.well-known/matrix/server` and determines how long they may be cached.

Server-server API, "Resolving server names", step 3.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from yarl import URL

from federation.client.server_discovery import MAX_LIFETIME, WellKnownAnswer
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.identifiers import is_server_name

MAX_BYTES: Final = 50 * 1024
MAX_REDIRECTS: Final = 5
DEFAULT_LIFETIME: Final = 24 * 3600.0
"""Seconds. "use a sensible default when headers are not present. The recommended sensible default is 24
hours.\""""
MIN_LIFETIME: Final = 5 * 60.0
"""Seconds, as in Synapse. Without a minimum, a server that forbids caching would be queried before every
request."""
MAX_FAILURE_LIFETIME: Final = 3600.0
"""Seconds. "Errors are recommended to be cached for up to an hour.\""""

_MAX_AGE: Final = re.compile(r'max-age\s*=\s*"?(\d{1,10})"?', re.IGNORECASE | re.ASCII)


def well_known_url(host: str, port: int = 443) -> URL:
    return URL.build(scheme="https", host=host, port=port, path="/.well-known/matrix/server")


def redirect_url(current: URL, location: str | None) -> URL | None:
    """The target of a redirect. None if it must not be followed, as for any scheme but https."""
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


def parse_response(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime, failures: int = 0
) -> WellKnownAnswer:
    """Parse a response. `failures`: the number of consecutive failures before it. `headers` must ignore
    case."""
    if status != 200:
        # A 4xx status means that there is no delegation; after a 5xx there may still be one.
        return no_delegation(f"answered {status}", failures, failed=status >= 500 or status == 429)
    delegated = parse_delegated_server(body)
    if delegated is None:
        problem = "answered with something that is not JSON with a server name in m.server"
        return no_delegation(problem, failures, failed=False)
    return WellKnownAnswer(delegated, lifetime(headers, now))


def no_delegation(problem: str, failures: int = 0, *, failed: bool = True) -> WellKnownAnswer:
    """The result if no valid delegation was found.

    "servers are encouraged to exponentially back off for repeated failures"
    """
    return WellKnownAnswer(None, min(MIN_LIFETIME * 2 ** min(failures, 10), MAX_FAILURE_LIFETIME), failed, problem)


def parse_delegated_server(body: bytes) -> str | None:
    """`m.server`, or None if the body is invalid."""
    if len(body) > MAX_BYTES:
        return None
    try:
        content = decode(body)
    except NotJson:
        return None
    server = content.get("m.server") if isinstance(content, dict) else None
    return server if isinstance(server, str) and is_server_name(server) else None


def lifetime(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds for which a valid response may be cached: by `Cache-Control`, else by `Expires`, within
    bounds."""
    return min(max(_requested_lifetime(headers, now), MIN_LIFETIME), MAX_LIFETIME)


def _requested_lifetime(headers: Mapping[str, str], now: datetime) -> float:
    control = headers.get("Cache-Control", "")
    if re.search(r"\bno-(store|cache)\b", control, re.IGNORECASE):
        return 0.0
    if max_age := _MAX_AGE.search(control):
        return float(max_age[1])
    expires = headers.get("Expires")
    if expires is None:
        return DEFAULT_LIFETIME
    date = http_date(expires)
    # RFC 9111, 5.3: "A cache recipient MUST interpret invalid date formats […] as representing a time in the
    # past".
    return 0.0 if date is None else (date - now).total_seconds()


def http_date(text: str) -> datetime | None:
    """Parse a date in any of the three formats of RFC 9110, 5.6.7, one of which has no time zone."""
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
