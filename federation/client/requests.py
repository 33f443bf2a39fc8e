"""The parts of an outgoing request: its target, its body, and the Authorization header that signs both.

Server-server API, "Request Authentication". Path and query are signed exactly as they are sent.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from federation.keys.server_keys import LocalKey
from federation.keys.x_matrix import XMatrix, render
from federation.matrix.canonical_json import encode
from federation.matrix.signatures import make_signature

SEND: Final = "/_matrix/federation/v1/send/{txnId}"

Content = Mapping[str, Any] | bytes | None
"""The body of a request: JSON, bytes that `canonical_json.encode` has returned, or none."""


def encode_body(content: Content) -> bytes | None:
    """Encode the body. Raises `NotCanonical` if it has no canonical JSON, without which it could not be
    signed."""
    if content is None or isinstance(content, bytes):
        return content
    return encode(dict(content))


def authorization(method: str, uri: str, origin: str, destination: str, body: bytes | None, key: LocalKey) -> str:
    """The value of the Authorization header. `body` must be canonical JSON, so that it need not be encoded
    again for the signature."""
    signed = bytes_to_sign(method, uri, origin, destination, body)
    return render(XMatrix(origin, key.key_id, make_signature(signed, key.signing_key), destination))


def bytes_to_sign(method: str, uri: str, origin: str, destination: str, body: bytes | None) -> bytes:
    """The canonical JSON of `federation.keys.x_matrix.signed_object`, assembled from a body that is canonical JSON
    already."""
    rest = encode({"destination": destination, "method": method, "origin": origin, "uri": uri})
    if body is None:
        return rest
    # In canonical JSON, `content` comes before all other keys.
    return b'{"content":' + body + b"," + rest[1:]


_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """`template` is the path as in the specification. It is the same for every room and server, so it can be
    a metric label. `uri` is the path and query that are sent."""

    template: str
    uri: str


def request_target(template: str, /, *, query: Iterable[tuple[str, str]] = (), **segments: str) -> RequestTarget:
    """`request_target("/_matrix/federation/v1/event/{eventId}", eventId="$abc")`.

    Values are percent-encoded, so that each stays one path segment. Exactly the names of the template must be
    given.
    """
    names = set(_PARAMETER.findall(template))
    assert names == set(segments), f"{template} takes {sorted(names)}"
    path = _PARAMETER.sub(lambda place: _segment(segments[place[1]]), template)
    pairs = "&".join(f"{_percent_encode(name)}={_percent_encode(value)}" for name, value in query)
    return RequestTarget(template, f"{path}?{pairs}" if pairs else path)


def _segment(value: str) -> str:
    # Proxies resolve dot segments, percent-encoded or not.
    assert value not in {"", ".", ".."}, "a path segment is neither empty nor a dot segment"
    return _percent_encode(value)


def _percent_encode(value: str) -> str:
    return quote(value, safe="")
