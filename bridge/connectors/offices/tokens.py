"""Tokens with which Agents and Computers show whose they are: `plo_`, and the rest as in a token of an agent.

"token → owner, allowed roles, allowed offices": what a connection may be, and where, is said by its token and
by nothing that it says itself.
"""

import re
from binascii import crc32
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, Token
from bridge.connectors.offices.protocol.events import MOST_BYTES, ROLES, is_name
from federation.matrix.globs import matches_glob

PREFIX: Final = "plo_"
MOST_PATTERNS: Final = 100
"""Offices of one token."""

_ROLES: Final = " and ".join(sorted(ROLES))
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# So many digits hold so many bytes: 62^10 > 2^56, 62^43 > 2^256, 62^6 > 2^32.
_ID, _SECRET, _CHECKSUM = 10, 43, 6
_TOKEN: Final = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{_ID}}})[0-9A-Za-z]{{{_SECRET}}}([0-9A-Za-z]{{{_CHECKSUM}}})"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows. `offices` are ids, or patterns with `*`; none of them: every office."""

    token_id: str
    owner: str
    roles: frozenset[str]
    offices: tuple[str, ...] = ()

    def allows_role(self, role: str) -> bool:
        return role in self.roles

    def allows_office(self, office_id: str) -> bool:
        """A `*` also stands for an `@` and the node behind it."""
        return not self.offices or any(matches_glob(pattern, office_id) for pattern in self.offices)


def make_token(id_bytes: bytes, secret: bytes) -> Token:
    """Of random bytes."""
    assert (len(id_bytes), len(secret)) == (ID_BYTES, SECRET_BYTES), "its length is part of its form"
    token_id = _digits(int.from_bytes(id_bytes), _ID)
    body = f"{PREFIX}{token_id}{_digits(int.from_bytes(secret), _SECRET)}"
    return Token(token_id, body + _checksum(body))


def read_token(shown: object) -> Token | None:
    """None for what was never a token, be it a text or not: it is what a stranger sent."""
    if not isinstance(shown, str):
        return None
    # Of a text that is too long no more is looked at than a token has.
    found = _TOKEN.fullmatch(shown)
    if found is None or _checksum(shown[:-_CHECKSUM]) != found[2]:
        return None
    return Token(found[1], shown)


def wrong_owner(owner: str) -> str | None:
    """Why nobody can be called so; None if somebody can. People read it in audits."""
    if is_name(owner):
        return None
    return f"An owner has 1 to {MOST_BYTES} bytes of printable text, without space around it."


def wrong_roles(roles: Sequence[str]) -> str | None:
    if not roles:
        return f"A token is for one role at least: {_ROLES}."
    unknown = sorted(set(roles) - ROLES)
    return f"There is no role {unknown[0]}: there are {_ROLES}." if unknown else None


def wrong_offices(offices: Sequence[str]) -> str | None:
    """Of ids and patterns."""
    if len(offices) > MOST_PATTERNS:
        return f"A token is for {MOST_PATTERNS} offices at most, or patterns of them."
    if all(map(is_name, offices)):
        return None
    return f"An office has 1 to {MOST_BYTES} bytes of printable text, without space around it."


def _checksum(body: str) -> str:
    return _digits(crc32(body.encode("ascii")), _CHECKSUM)


def _digits(number: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        number, rest = divmod(number, len(_DIGITS))
        digits = _DIGITS[rest] + digits
    return digits
