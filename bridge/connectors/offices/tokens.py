"""Tokens with which Agents and Computers connect.

A token is `plo_` followed by the same form as an attached agent's token. "token → owner, allowed roles,
allowed offices": a connection's permissions come from its token alone, never from what the client declares.
"""

import re
import secrets
from binascii import crc32
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, Token
from bridge.connectors.offices.protocol.events import MAX_NAME_BYTES, ROLES, is_name
from federation.matrix.globs import matches_glob
from storage.database import Database
from storage.errors import LocalError
from storage.offices import tokens as office_tokens
from storage.offices.tokens import OfficeTokenRow

PREFIX: Final = "plo_"
MAX_OFFICES: Final = 100
"""Offices of one token."""

_ROLES: Final = " and ".join(sorted(ROLES))
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# So many digits hold so many bytes: 62^10 > 2^56, 62^43 > 2^256, 62^6 > 2^32.
_ID, _SECRET, _CHECKSUM = 10, 43, 6
_TOKEN: Final = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_ID}}})[0-9A-Za-z]{{{_SECRET}}}([0-9A-Za-z]{{{_CHECKSUM}}})")


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows. `offices` are ids, or patterns with `*`; an empty tuple allows every office."""

    token_id: str
    owner: str
    roles: frozenset[str]
    offices: tuple[str, ...] = ()

    def allows_role(self, role: str) -> bool:
        return role in self.roles

    def allows_office(self, office_id: str) -> bool:
        """A `*` also matches an `@` and the node behind it."""
        return not self.offices or any(matches_glob(pattern, office_id) for pattern in self.offices)


def make_token(id_bytes: bytes, secret: bytes) -> Token:
    """Make a token from random bytes."""
    assert (len(id_bytes), len(secret)) == (ID_BYTES, SECRET_BYTES), "a token has a fixed length"
    token_id = _digits(int.from_bytes(id_bytes), _ID)
    body = f"{PREFIX}{token_id}{_digits(int.from_bytes(secret), _SECRET)}"
    return Token(token_id, body + _checksum(body))


def read_token(value: object) -> Token | None:
    """None if value, which comes from a client and may be anything, does not have the form of a token."""
    if not isinstance(value, str):
        return None
    # `fullmatch` stops reading at a token's length, however long the text is.
    match = _TOKEN.fullmatch(value)
    if match is None or _checksum(value[:-_CHECKSUM]) != match[2]:
        return None
    return Token(match[1], value)


def owner_error(owner: str) -> str | None:
    """Why owner is not valid; None if it is. People read it in the audit log."""
    if is_name(owner):
        return None
    return f"An owner is 1 to {MAX_NAME_BYTES} bytes of printable text without spaces at the ends."


def roles_error(roles: Sequence[str]) -> str | None:
    if not roles:
        return f"A token needs at least one role: {_ROLES}."
    unknown = sorted(set(roles) - ROLES)
    return f"Unknown role {unknown[0]}: the roles are {_ROLES}." if unknown else None


def offices_error(offices: Sequence[str]) -> str | None:
    """Why a list of office ids and patterns is not valid; None if it is."""
    if len(offices) > MAX_OFFICES:
        return f"A token can name at most {MAX_OFFICES} offices or patterns."
    if all(map(is_name, offices)):
        return None
    return f"An office id is 1 to {MAX_NAME_BYTES} bytes of printable text without spaces at the ends."


def _checksum(body: str) -> str:
    return _digits(crc32(body.encode("ascii")), _CHECKSUM)


def _digits(number: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        number, rest = divmod(number, len(_DIGITS))
        digits = _DIGITS[rest] + digits
    return digits


_HELP: Final = "`palaver offices token create --help` shows how to create one."


class OfficeTokens:
    """The stored tokens: creates, checks and revokes them."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self.now_ms = now_ms
        self._on_revoked: list[Callable[[str], None]] = []

    def on_revoked(self, listener: Callable[[str], None]) -> None:
        """Register a callback for the ids of tokens that this process revokes, so that connections with them
        can be closed."""
        self._on_revoked.append(listener)

    async def check(self, value: object) -> Grant | None:
        """Return what a client's token allows; None if it is unknown, expired or revoked. Each check queries
        Postgres, so a revocation takes effect immediately."""
        token = read_token(value)
        if token is None:
            return None
        now_ms = self.now_ms()
        async with self._database.transaction(readonly=True) as connection:
            row = await office_tokens.fetch_token(connection, token.token_id)
        if row is None or not token.matches(row.hash) or not row.is_valid(now_ms):
            return None
        if row.is_use_due(now_ms):
            async with self._database.transaction() as connection:
                await office_tokens.record_use(connection, row.token_id, now_ms)
        return Grant(row.token_id, row.owner, frozenset(row.roles), row.offices)

    async def valid_ids(self, token_ids: Collection[str]) -> frozenset[str]:
        """Return those of these ids whose tokens are still valid. The others have expired, or another process
        has revoked them."""
        async with self._database.transaction(readonly=True) as connection:
            return await office_tokens.list_valid_ids(connection, token_ids, self.now_ms())

    # -- for the operator --

    async def create(
        self, owner: str, roles: Sequence[str], offices: Sequence[str] = (), lifetime_ms: int | None = None
    ) -> str:
        """Return the token itself; it cannot be read again later. Without `offices` it allows all offices,
        without `lifetime_ms` it is valid until revoked."""
        error = owner_error(owner) or roles_error(roles) or offices_error(offices)
        if error is not None:
            raise LocalError(error, _HELP)
        token = make_token(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
        now_ms = self.now_ms()
        row = OfficeTokenRow(
            token.token_id,
            token.hash,
            owner,
            tuple(sorted(set(roles))),
            tuple(dict.fromkeys(offices)),
            now_ms,
            None if lifetime_ms is None else now_ms + lifetime_ms,
        )
        async with self._database.transaction() as connection:
            if not await office_tokens.insert_token(connection, row):
                raise LocalError(
                    f"The maximum of {office_tokens.MAX_TOKENS} tokens for offices is reached.",
                    "Revoke unused tokens: they are deleted after a month.",
                )
        return token.text

    async def list_tokens(self) -> list[OfficeTokenRow]:
        """All stored tokens, including expired and revoked ones."""
        async with self._database.transaction(readonly=True) as connection:
            return await office_tokens.list_tokens(connection)

    async def find(self, token_id: str) -> OfficeTokenRow | None:
        async with self._database.transaction(readonly=True) as connection:
            return await office_tokens.fetch_token(connection, token_id)

    async def revoke(self, token_id: str) -> None:
        """Revoking a token again changes nothing; the time of the first revocation is kept."""
        async with self._database.transaction() as connection:
            exists = await office_tokens.revoke_token(connection, token_id, self.now_ms())
        if not exists:
            # The given text may be a whole token by mistake, so the error does not repeat it.
            raise LocalError(
                "No token for offices has this id.", "`palaver offices token list` shows the ids of all tokens."
            )
        for listener in self._on_revoked:
            listener(token_id)
