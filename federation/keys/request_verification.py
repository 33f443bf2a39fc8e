"""Verifies that a federation request comes from the server that it names as its origin.

Server-server API, "Request Authentication". There are three steps, of increasing cost: a request must pass
each before the next one. The error names the step that failed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from federation.keys.server_keys import is_known_algorithm
from federation.keys.x_matrix import XMatrix, is_addressed_to, parse_all, signed_object
from federation.matrix.canonical_json import NotCanonical, NotJson, decode_and_find_floats, encode, encode_checked
from federation.matrix.errors import MatrixError
from federation.matrix.signatures import BadSignature, NotSigned, Verified, VerifyKey, verify

METHODS_WITH_CONTENT: Final = frozenset({"PUT", "POST", "DELETE", "PATCH"})
"""Methods whose content is signed, `{}` included. The body of a GET is not signed, so it is ignored."""

MAX_DEPTH: Final = 900
"""How deep a body may nest: as deep as it can be encoded. Events have a lower limit; an event beyond it is
dropped alone, and not with its whole transaction."""


class Claim(NamedTuple):
    """The claimed origin of a request, and the signatures that should prove it, by key id."""

    origin: str
    signatures: dict[str, str]

    @property
    def key_ids(self) -> list[str]:
        """The keys that are needed to verify the signatures."""
        return [key_id for key_id in self.signatures if is_known_algorithm(key_id)]


class SignedRequest(NamedTuple):
    """`signed`: the bytes that must have been signed. `content` is None for a method without content."""

    claim: Claim
    signed: bytes
    content: dict[str, Any] | None


def parse_claim(authorization: Sequence[str], server_name: str, is_allowed: Callable[[str], bool]) -> Claim:
    """Parse the claimed origin, and check that it may federate, before the body is read or keys are fetched.
    Raises `MatrixError`."""
    headers = parse_all(authorization)
    if not headers:
        raise unauthorized("The request has no X-Matrix authorization.")
    origin = headers[0].origin
    # "If this property is included, but the value does not match the receiving server's name, the receiving
    # server must deny the request with an HTTP status code 401 Unauthorized."
    if not is_addressed_to(headers[0], server_name):
        raise unauthorized("The request is addressed to another server.")
    if origin == server_name:
        raise MatrixError("M_FORBIDDEN", "This server does not send requests to itself.", 403)
    if not is_allowed(origin):
        raise MatrixError("M_FORBIDDEN", f"This server does not federate with {origin}.", 403)
    return Claim(origin, _signatures(headers))


def parse_request(claim: Claim, method: str, uri: str, body: bytes, server_name: str) -> SignedRequest:
    """Parse the content and compute the bytes that must have been signed. `uri` is the request target
    verbatim. Raises `MatrixError`."""
    content, has_float = _content(body) if method in METHODS_WITH_CONTENT else (None, False)
    signed = _canonical(signed_object(method, uri, claim.origin, server_name, content), has_float)
    return SignedRequest(claim, signed, content)


def verify_request(request: SignedRequest, keys: Mapping[str, VerifyKey]) -> None:
    """Verify the signatures with the origin's current keys. Raises `MatrixError`."""
    origin, signatures = request.claim
    match verify(request.signed, {origin: signatures}, origin, keys):
        case Verified():
            return
        case BadSignature(key_id=key_id):
            raise unauthorized(f"The signature with the key {key_id} of {origin} is wrong.")
        case NotSigned():
            raise unauthorized(f"{origin} did not sign with an ed25519 key.")
        case _:
            named = ", ".join(sorted(signatures))
            raise unauthorized(f"No currently valid key of {origin} was found for {named}.")


def unauthorized(text: str) -> MatrixError:
    return MatrixError("M_UNAUTHORIZED", text, 401)


def _signatures(headers: Sequence[XMatrix]) -> dict[str, str]:
    if len(headers) == 1:
        return {headers[0].key: headers[0].signature}
    made: dict[str, str] = {}
    for header in headers:
        if made.setdefault(header.key, header.signature) != header.signature:
            raise unauthorized("The request has two signatures with the same key.")
    return made


def _content(body: bytes) -> tuple[dict[str, Any], bool]:
    """The content, and whether it may contain floats. "All POST and PUT endpoints require the requesting
    server to supply a request body containing a (potentially empty) JSON object." """
    try:
        content, has_float = decode_and_find_floats(body)
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body of the request is not JSON.") from None
    if not isinstance(content, dict):
        raise MatrixError("M_BAD_JSON", "The body of the request is not a JSON object.")
    return content, has_float


def _canonical(value: dict[str, Any], has_float: bool) -> bytes:
    """Canonical JSON. A transaction may contain events of room versions 3 to 5 with floats and large
    integers; it is then signed in the form in which Python writes them."""
    try:
        if not has_float:
            return encode_checked(value)
    except NotCanonical:
        pass
    try:
        return encode(value, strict=False, max_depth=MAX_DEPTH)
    except (NotCanonical, RecursionError):
        raise MatrixError(
            "M_BAD_JSON", "The request is nested too deeply or contains invalid text, and cannot be verified."
        ) from None
