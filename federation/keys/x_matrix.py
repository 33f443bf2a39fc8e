"""The `X-Matrix` authorization header of a federation request: parsing, rendering, and the object that is
signed.

Server-server API, "Request Authentication". `request_verification` checks the signature.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_key_id, is_server_name

SCHEME = "x-matrix"
# A server may sign with several keys, one header for each, but not with this many.
MAX_HEADERS = 8
MAX_CHARACTERS = 4096

# RFC 9110, 5.6.2: a token. Parameter names are tokens.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# Unquoted values are not only tokens: old servers send `origin=host:8448` and padded signatures.
_UNQUOTED = re.compile(r'[^\s",\\]+')
_BLANKS = re.compile(r"[ \t]*")
_SIGNATURE = re.compile(r"[0-9A-Za-z+/\-_]+={0,2}", re.ASCII)
# The form that nearly all servers send. The text before and after the signature consists of whole parameters,
# so its meaning does not depend on the signature.
_COMMON_FORM = re.compile(
    r'(X-Matrix (?:[a-z]+="[^"\\]*",)*)sig="([0-9A-Za-z+/\-_]+={0,2})"((?:,[a-z]+="[^"\\]*")*)', re.ASCII
)
_CACHE_SIZE: Final = 1000


class BadAuthorization(MatrixError):
    """The header is malformed, or lacks a parameter."""

    def __init__(self, problem: str) -> None:
        super().__init__("M_UNAUTHORIZED", f"The X-Matrix authorization {problem}.", 401)


class XMatrix(NamedTuple):
    """One header: origin, key id, signature (base64, not decoded) and destination."""

    origin: str
    key: str
    signature: str
    destination: str | None = None


def parse(header: str) -> XMatrix:
    """Parse one `Authorization` header: names in any order and case, values quoted or not."""
    if len(header) > MAX_CHARACTERS:
        raise BadAuthorization("is too long")
    usual = _COMMON_FORM.fullmatch(header)
    if usual is None:
        return _parse(header)
    before, signature, behind = usual.groups()
    origin, key, _, destination = _without_signature(before, behind)
    return XMatrix(origin, key, signature, destination)


@lru_cache(maxsize=_CACHE_SIZE)
def _without_signature(before: str, behind: str) -> XMatrix:
    """Cached: a server sends the same header with each request, except for the signature."""
    return _parse(f'{before}sig="A"{behind}')


def _parse(header: str) -> XMatrix:
    scheme, blank, rest = _split_scheme(header)
    if scheme != SCHEME or not blank:
        raise BadAuthorization("does not begin with the scheme X-Matrix")
    found: dict[str, str] = {}
    for name, value in _parameters(rest):
        if name in found:
            # Parsers that take the first and parsers that take the last would see two different servers.
            raise BadAuthorization("names a parameter twice")
        found[name] = value
    return XMatrix(
        origin=_checked(found, "origin", is_server_name),
        key=_checked(found, "key", is_key_id),
        signature=_checked(found, "sig", _is_signature),
        destination=_checked(found, "destination", is_server_name) if "destination" in found else None,
    )


def parse_all(headers: Sequence[str]) -> tuple[XMatrix, ...]:
    """Parse all X-Matrix headers of a request, which must name one server. Other schemes are ignored."""
    if len(headers) == 1 and headers[0].startswith("X-Matrix "):
        return (parse(headers[0]),)
    x_matrix = [header for header in headers if _split_scheme(header)[0] == SCHEME]
    if len(x_matrix) > MAX_HEADERS:
        raise BadAuthorization("has too many headers")
    parsed = tuple(parse(header) for header in x_matrix)
    if len({(one.origin, one.destination) for one in parsed}) > 1:
        raise BadAuthorization("has several headers that contradict each other")
    return parsed


def render(authorization: XMatrix) -> str:
    """The header in a form that every server can parse: lower-case names, quoted, one blank, no backslash."""
    assert is_server_name(authorization.origin), "this server's name is valid"
    assert is_key_id(authorization.key), "local key ids are valid"
    assert _is_signature(authorization.signature), "a signature is base64"
    destination = ""
    if authorization.destination is not None:
        assert is_server_name(authorization.destination), "requests are sent to valid server names only"
        destination = f'destination="{authorization.destination}",'
    return (
        f'X-Matrix origin="{authorization.origin}",{destination}'
        f'key="{authorization.key}",sig="{authorization.signature}"'
    )


def signed_object(
    method: str, uri: str, origin: str, destination: str, content: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The object that is signed. `uri` is the path and query exactly as on the wire, never rebuilt.

    `content` is None for a request without body, which is different from `{}`.
    """
    unsigned: dict[str, Any] = {"method": method, "uri": uri, "origin": origin, "destination": destination}
    return unsigned if content is None else {**unsigned, "content": content}


def is_addressed_to(authorization: XMatrix, server_name: str) -> bool:
    """Whether the request is addressed to this server, not replayed from another one. Servers before v1.3
    name no destination."""
    return authorization.destination is None or authorization.destination == server_name


def _split_scheme(header: str) -> tuple[str, str, str]:
    scheme = _NAME.match(header)
    if scheme is None:
        return "", "", header
    blank = _BLANKS.match(header, scheme.end())
    assert blank is not None, "the pattern matches the empty string too"
    return scheme[0].lower(), blank[0], header[blank.end() :]


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    """`name=value` separated by commas, with blanks and tabs around `,` and `=`; empty elements are
    skipped."""
    at = 0
    while at < len(text):
        at = _skip(text, at)
        if at < len(text) and text[at] == ",":
            at += 1
            continue
        if at == len(text):
            return
        name = _NAME.match(text, at)
        if name is None:
            raise BadAuthorization("contains text that is not a parameter")
        at = _skip(text, name.end())
        if text[at : at + 1] != "=":
            raise BadAuthorization("has a parameter without a value")
        at = _skip(text, at + 1)
        value = _QUOTED.match(text, at) or _UNQUOTED.match(text, at)
        if value is None:
            raise BadAuthorization("has a missing or unterminated value")
        yield name[0].lower(), _ESCAPED.sub(r"\1", value[1]) if value.re is _QUOTED else value[0]
        at = _skip(text, value.end())
        if at < len(text) and text[at] != ",":
            raise BadAuthorization("lacks a comma between two parameters")


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    assert blanks is not None, "the pattern matches the empty string too"
    return blanks.end()


def _is_signature(value: str) -> bool:
    return _SIGNATURE.fullmatch(value) is not None


def _checked(found: Mapping[str, str], name: str, is_valid: Callable[[str], bool]) -> str:
    value = found.get(name)
    if value is None:
        raise BadAuthorization(f"has no {name}")
    if not is_valid(value):
        raise BadAuthorization(f"has an invalid {name}")
    return value
