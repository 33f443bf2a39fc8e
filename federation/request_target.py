"""The target of a request: the path and query that stand on the wire, which are also what is signed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

_PLACE: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """`template` is the path as the specification writes it: the same for every room and every server, so it
    may be a metric label. `uri` is what is sent."""

    template: str
    uri: str


def request_target(
    template: str, /, *, query: Iterable[tuple[str, str]] = (), **segments: str
) -> RequestTarget:
    """`request_target("/_matrix/federation/v1/event/{eventId}", eventId="$abc")`.

    A segment stays one segment whatever it holds. Each name of the template must be given and no other.
    """
    names = set(_PLACE.findall(template))
    assert names == set(segments), f"{template} takes {sorted(names)}"
    path = _PLACE.sub(lambda place: _segment(segments[place[1]]), template)
    pairs = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in query)
    return RequestTarget(template, f"{path}?{pairs}" if pairs else path)


def _segment(value: str) -> str:
    # Every proxy on the way would take these for a way up, percent-encoded or not.
    assert value not in {"", ".", ".."}, "a path segment names something"
    return _encoded(value)


def _encoded(value: str) -> str:
    return quote(value, safe="")
