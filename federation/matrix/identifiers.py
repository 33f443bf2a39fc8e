"""The grammar of Matrix identifiers: server names, user, room and event ids, aliases, key ids.

Specification, appendix "Identifier Grammar". Every function is total: it accepts any string and raises
nothing.

`escape` and `unescape` map any text to part of a localpart and back. Specification, appendix "Mapping from
other character sets": characters that Matrix does not allow in the localpart of a new user, including `=`,
are written as `=` and two hexadecimal digits for each byte of UTF-8. The specification maps capitals with
`_`; here they are escaped like other characters, so that there is one rule.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

EventId = str

MAX_BYTES: Final = 255
"""The limit for user ids, room ids, aliases and event ids: "The length … MUST NOT exceed 255 bytes.\""""

# dns-name: "a series of labels separated by `.`, where each label consists of the alphanumeric characters or
# hyphens". port = 1*5DIGIT. An IPv6 literal is in brackets: 2*45 hexadecimal digits, `:` and `.`.
_SERVER_NAME: Final = re.compile(
    r"(?P<host>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*|\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_DIGITS_AND_DOTS: Final = re.compile(r"[0-9.]+", re.ASCII)
# user_id_char = DIGIT / a-z / "-" / "." / "=" / "_" / "/" / "+"
_CURRENT_LOCALPART: Final = re.compile(r"[a-z0-9.=_/+-]+", re.ASCII)
# From room version 12 a room id is `!` and the create event's hash, which is 32 bytes in URL-safe base64.
_HASH: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
# Key identifiers: an algorithm and a version, which "MUST have characters matching the regular expression
# [a-zA-Z0-9_]".
_KEY_ID: Final = re.compile(r"[a-z0-9_]+:[a-zA-Z0-9_]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServerName:
    """A parsed server name. `host` includes the brackets of an IPv6 literal."""

    host: str
    port: int | None
    is_ip_literal: bool


def parse_server_name(name: str) -> ServerName | None:
    """Parse server_name = hostname [ ":" port ]. None if it is invalid."""
    if len(name) > MAX_BYTES:
        return None
    match = _SERVER_NAME.fullmatch(name)
    if match is None:
        return None
    host, ipv6, digits = match["host"], match["ipv6"], match["port"]
    if ipv6 is not None and not _is_ip_address(ipv6):
        return None
    # `ipaddress` is slow for invalid addresses, and a DNS name has letters.
    is_ip_literal = ipv6 is not None or (_DIGITS_AND_DOTS.fullmatch(host) is not None and _is_ip_address(host))
    port = int(digits) if digits else None
    if port is not None and port > 65_535:
        return None  # five digits, but no such port
    return ServerName(host, port, is_ip_literal)


def is_server_name(name: str) -> bool:
    return parse_server_name(name) is not None


def domain(identifier: str) -> str | None:
    """The server name after the first colon, unchecked. None if there is no colon.

    It decides which server must sign an event, and every server splits identifiers like this, even if the
    domain is invalid.
    """
    _, colon, rest = identifier.partition(":")
    return rest if colon else None


def localpart(identifier: str) -> str | None:
    """The text between the sigil and the first colon. None if there is no colon."""
    before, colon, _ = identifier.partition(":")
    return before[1:] if colon else None


def is_user_id(text: str) -> bool:
    """Whether the user id must be accepted over federation, which includes historical user ids.

    "servers MUST accept user IDs with localparts consisting of any legal unicode codepoint except for `:` and
    NUL (U+0000), including other control characters and the empty string."
    """
    return text.startswith("@") and _has_localpart_and_domain(text)


def is_current_user_id(text: str) -> bool:
    """Whether a new user may have this user id: the localpart "MUST NOT be empty, and MUST contain only the
    characters a-z, 0-9, ., _, =, -, /, and +"."""
    return is_user_id(text) and _CURRENT_LOCALPART.fullmatch(localpart(text) or "") is not None


def looks_like_user_id(text: str) -> bool:
    """Whether the text has the sigil and a colon.

    The authorisation rules require "valid user IDs" as keys of power levels, and Synapse checks only this. A
    stricter check would reject power levels that most servers of a room have accepted.
    """
    return text.startswith("@") and ":" in text


def is_room_id(text: str) -> bool:
    """`!opaque_id:domain`, or from room version 12 `!` and the hash of the create event."""
    if not text.startswith("!"):
        return False
    return _HASH.fullmatch(text, 1) is not None or _has_localpart_and_domain(text)


def is_room_alias(text: str) -> bool:
    """`#room_alias:domain`."""
    return text.startswith("#") and _has_localpart_and_domain(text)


def is_event_id(text: str) -> bool:
    """`$opaque_id`: "intended to be treated as fully opaque strings"."""
    return (
        text[:1] == "$"
        and "\0" not in text
        and len(text) > 1
        and (len(text) <= MAX_BYTES // 4 or has_valid_length(text))
    )


def is_key_id(text: str) -> bool:
    """`algorithm:version`, as in `ed25519:auto`."""
    return has_valid_length(text) and _KEY_ID.fullmatch(text) is not None


def has_valid_length(text: str) -> bool:
    """Whether the text has at most 255 bytes in UTF-8."""
    # A string of up to 63 characters has at most 252 bytes, so most identifiers need not be encoded.
    return len(text) <= MAX_BYTES // 4 or len(text.encode("utf-8", "surrogatepass")) <= MAX_BYTES


def _has_localpart_and_domain(text: str) -> bool:
    before, colon, rest = text.partition(":")
    return (
        bool(colon) and "\0" not in before and has_valid_length(text) and is_server_name(rest) and _is_unicode(before)
    )


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# user_id_char = DIGIT / a-z / "-" / "." / "=" / "_" / "/" / "+"
_ESCAPED: Final = re.compile(rb"[^a-z0-9._/+-]")
_LOCALPART: Final = re.compile(r"(?:[a-z0-9._/+-]|=[0-9a-f]{2})+", re.ASCII)
_ESCAPE: Final = re.compile(rb"=([0-9a-f]{2})")


def escape(text: str) -> str:
    """Escape a text, which must be encodable as UTF-8."""
    return _ESCAPED.sub(lambda found: b"=%02x" % found[0][0], text.encode()).decode()


def unescape(name: str) -> str | None:
    """Undo `escape`. None for names that `escape` does not produce: otherwise two names would mean the same
    text."""
    if _LOCALPART.fullmatch(name) is None:
        return None
    try:
        text = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), name.encode()).decode()
    except UnicodeDecodeError:
        return None
    return text if escape(text) == name else None
