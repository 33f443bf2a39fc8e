"""The `X-Matrix` authorization of a federation request: reading, writing, and the object that is signed.

Server-server API, "Request Authentication". Checking the signature is not here: that needs keys.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_key_id, is_server_name

SCHEME = "x-matrix"
# Several keys of one server may sign, one header each. Nobody has this many.
MAX_HEADERS = 8
MAX_CHARACTERS = 4096

# RFC 9110, 5.6.2: a token. Parameter names are tokens.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# Not only tokens stand unquoted: old servers send `origin=host:8448` and padded signatures.
_UNQUOTED = re.compile(r'[^\s",\\]+')
_BLANKS = re.compile(r"[ \t]*")
_SIGNATURE = re.compile(r"[0-9A-Za-z+/\-_]+={0,2}", re.ASCII)
# As nearly everybody writes it. What stands on both sides of the signature is whole parameters, so that it is
# the same whatever the signature is.
_COMMON_FORM = re.compile(
    r'(X-Matrix (?:[a-z]+="[^"\\]*",)*)sig="([0-9A-Za-z+/\-_]+={0,2})"((?:,[a-z]+="[^"\\]*")*)', re.ASCII
)
_CACHE_SIZE: Final = 1000


class BadAuthorization(MatrixError):
    """The header cannot be read, or does not say what it must."""

    def __init__(self, problem: str) -> None:
        super().__init__("M_UNAUTHORIZED", f"The X-Matrix authorization {problem}.", 401)


class XMatrix(NamedTuple):
    """One header: who asks, whom, with which key, and the signature as it came (base64, not yet decoded)."""

    origin: str
    key: str
    signature: str
    destination: str | None = None


def parse(header: str) -> XMatrix:
    """One `Authorization` header: names in any order and case, values quoted or not."""
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
    """A server writes the same with each request, but for the signature, which is checked each time."""
    return _parse(f'{before}sig="A"{behind}')


def _parse(header: str) -> XMatrix:
    scheme, blank, rest = _split_scheme(header)
    if scheme != SCHEME or not blank:
        raise BadAuthorization("does not begin with the scheme X-Matrix")
    found: dict[str, str] = {}
    for name, value in _parameters(rest):
        if name in found:
            # Readers that take the first and readers that take the last would see two different servers.
            raise BadAuthorization("names a parameter twice")
        found[name] = value
    return XMatrix(
        origin=_checked(found, "origin", is_server_name),
        key=_checked(found, "key", is_key_id),
        signature=_checked(found, "sig", _is_signature),
        destination=_checked(found, "destination", is_server_name) if "destination" in found else None,
    )


def parse_all(headers: Sequence[str]) -> tuple[XMatrix, ...]:
    """All X-Matrix headers of a request, which must speak for one server; other schemes are not looked at."""
    if len(headers) == 1 and headers[0].startswith("X-Matrix "):
        return (parse(headers[0]),)
    ours = [header for header in headers if _split_scheme(header)[0] == SCHEME]
    if len(ours) > MAX_HEADERS:
        raise BadAuthorization("comes in too many headers")
    parsed = tuple(parse(header) for header in ours)
    if len({(one.origin, one.destination) for one in parsed}) > 1:
        raise BadAuthorization("comes in several headers that contradict each other")
    return parsed


def render(authorization: XMatrix) -> str:
    """The header as every server can read it: lower-case names, quoted, one blank, no backslash."""
    assert is_server_name(authorization.origin), "we only sign for a valid server name"
    assert is_key_id(authorization.key), "our key ids are valid"
    assert _is_signature(authorization.signature), "a signature is base64"
    destination = ""
    if authorization.destination is not None:
        assert is_server_name(authorization.destination), "we only ask valid server names"
        destination = f'destination="{authorization.destination}",'
    return (
        f'X-Matrix origin="{authorization.origin}",{destination}'
        f'key="{authorization.key}",sig="{authorization.signature}"'
    )


def signed_object(
    method: str, uri: str, origin: str, destination: str, content: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What the signature covers. `uri` is path and query exactly as on the wire, never rebuilt.

    `content` is absent where the request has no body (None), present otherwise, `{}` included.
    """
    unsigned: dict[str, Any] = {"method": method, "uri": uri, "origin": origin, "destination": destination}
    return unsigned if content is None else {**unsigned, "content": content}


def is_addressed_to(authorization: XMatrix, server_name: str) -> bool:
    """A request for another server was replayed or went astray. Servers before v1.3 name no destination."""
    return authorization.destination is None or authorization.destination == server_name


def _split_scheme(header: str) -> tuple[str, str, str]:
    scheme = _NAME.match(header)
    if scheme is None:
        return "", "", header
    blank = _BLANKS.match(header, scheme.end())
    assert blank is not None, "the pattern matches the empty string too"
    return scheme[0].lower(), blank[0], header[blank.end() :]


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    """`name=value` between commas, blanks and tabs round `,` and `=`, empty elements passed over."""
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
            raise BadAuthorization("holds something that is no parameter")
        at = _skip(text, name.end())
        if text[at : at + 1] != "=":
            raise BadAuthorization("has a parameter without a value")
        at = _skip(text, at + 1)
        value = _QUOTED.match(text, at) or _UNQUOTED.match(text, at)
        if value is None:
            raise BadAuthorization("has a value that does not end, or none")
        yield name[0].lower(), _ESCAPED.sub(r"\1", value[1]) if value.re is _QUOTED else value[0]
        at = _skip(text, value.end())
        if at < len(text) and text[at] != ",":
            raise BadAuthorization("has no comma between two parameters")


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
