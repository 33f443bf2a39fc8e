"""A request that this node makes: the bytes of its body, and the authorization that signs exactly them.

Server-server API, "Request Authentication".
"""

from collections.abc import Mapping
from typing import Any

from nacl.bindings import crypto_sign, crypto_sign_BYTES

from federation.canonical_json import encode, encode_again
from federation.request_auth import XMatrix, render
from federation.server_keys import OwnKey
from federation.signatures import encode_base64, signature

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


class Signer:
    """Makes the authorization of many requests of one kind to one server, of which most is the same."""

    def __init__(self, method: str, origin: str, destination: str, key: OwnKey) -> None:
        self.key = key
        self._secret = bytes(key.signing_key) + bytes(key.signing_key.verify_key)
        self._header = render(XMatrix(origin, key.key_id, "A", destination)).removesuffix('A"')
        # The names of `request_auth.signed_object` in their canonical order: `uri` is the last of them.
        rest = encode({"destination": destination, "method": method, "origin": origin})
        self._rest = b"," + rest[1:-1] + b',"uri":'

    def authorization(self, uri: str, body: bytes) -> str:
        """As `authorization` makes it; `body` is canonical JSON."""
        signed = b'{"content":' + body + self._rest + encode_again(uri) + b"}"
        made = crypto_sign(signed, self._secret)[:crypto_sign_BYTES]
        return f'{self._header}{encode_base64(made)}"'
