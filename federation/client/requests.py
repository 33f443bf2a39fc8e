"""A request that this node makes: the bytes of its body, and the authorization that signs exactly them.

Server-server API, "Request Authentication".

The target of a request: the path and query that stand on the wire, which are also what is signed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from federation.keys.server_keys import OwnKey
from federation.keys.x_matrix import XMatrix, render
from federation.matrix.canonical_json import encode
from federation.matrix.signatures import signature

SEND: Final = "/_matrix/federation/v1/send/{txnId}"

Content = Mapping[str, Any] | bytes | None
"""What a request carries: JSON, or bytes that `canonical_json.encode` made of it before, or nothing."""


def encoded(content: Content) -> bytes | None:
    """The body. Raises `NotCanonical` for what nobody could check the signature of."""
    if content is None or isinstance(content, bytes):
        return content
    return encode(dict(content))


def authorization(
    method: str, uri: str, origin: str, destination: str, body: bytes | None, key: OwnKey
) -> str:
    """The header `Authorization`. `body` is canonical JSON, which saves writing a transaction twice."""
    signed = to_be_signed(method, uri, origin, destination, body)
    return render(XMatrix(origin, key.key_id, signature(signed, key.signing_key), destination))


def to_be_signed(method: str, uri: str, origin: str, destination: str, body: bytes | None) -> bytes:
    """The canonical form of `request_auth.signed_object`, put together round a body that has it already."""
    rest = encode({"destination": destination, "method": method, "origin": origin, "uri": uri})
    if body is None:
        return rest
    # `content` comes before all other names.
    return b'{"content":' + body + b"," + rest[1:]


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
