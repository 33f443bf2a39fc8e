"""Tokens of agents: their form, their storage, and the commands of `palaver agents token`.

A token is `plv_`, an id that is not secret, a secret and a checksum. The id identifies the database row,
which contains only a hash of the whole token. The checksum reveals miscopied text before the database is
queried.
"""

import hmac
import re
import secrets
from binascii import crc32
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

from cachetools import LRUCache

from bridge.agents.address import agent_id_problem
from bridge.control.server.arguments import Arguments
from bridge.control.socket import Command
from storage.agents import tokens as agent_tokens
from storage.agents.tokens import TokenRow
from storage.database import Database
from storage.errors import LocalError

PREFIX: Final = "plv_"
ID_BYTES: Final = 7
SECRET_BYTES: Final = 32

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Digits per bytes: 62^10 > 2^56, 62^43 > 2^256, 62^6 > 2^32.
_ID, _SECRET, _CHECKSUM = 10, 43, 6
_TOKEN: Final = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_ID}}})[0-9A-Za-z]{{{_SECRET}}}([0-9A-Za-z]{{{_CHECKSUM}}})")


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is the token itself."""

    token_id: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        """A plain hash is enough: a secret of 256 random bits cannot be guessed."""
        return sha256(self.text.encode("ascii")).digest()

    def matches(self, stored: bytes) -> bool:
        """Compare with a stored hash in constant time."""
        return hmac.compare_digest(self.hash, stored)


def make_token(id_bytes: bytes, secret: bytes) -> Token:
    """Make a token of random bytes."""
    assert (len(id_bytes), len(secret)) == (ID_BYTES, SECRET_BYTES), "a token has a fixed length"
    token_id = _digits(int.from_bytes(id_bytes), _ID)
    body = f"{PREFIX}{token_id}{_digits(int.from_bytes(secret), _SECRET)}"
    return Token(token_id, body + _checksum(body))


def parse_token(text: str) -> Token | None:
    """Parse a token; None if the text cannot be one."""
    found = _TOKEN.fullmatch(text)
    if found is None or _checksum(text[:-_CHECKSUM]) != found[2]:
        return None
    return Token(found[1], text)


def parse_bearer(headers: list[str]) -> Token | None:
    """Parse the `Authorization` headers of a request. RFC 6750, 2.1: `Bearer`; the scheme is case-insensitive
    (RFC 9110, 11.1)."""
    if len(headers) != 1:
        return None
    scheme, _, rest = headers[0].partition(" ")
    return parse_token(rest.strip(" ")) if scheme.lower() == "bearer" else None


def _checksum(body: str) -> str:
    return _digits(crc32(body.encode("ascii")), _CHECKSUM)


def _digits(number: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        number, rest = divmod(number, len(_DIGITS))
        digits = _DIGITS[rest] + digits
    return digits


USE_RECORDED_EVERY_MS: Final = 60_000
MAX_LISTED: Final = 1_000
_MAX_CACHED_USES: Final = 10_000


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """The agent of a token."""

    agent_id: str
    token_id: str


class AgentTokens:
    def __init__(self, database: Database, *, now_ms: Callable[[], int]) -> None:
        self._database = database
        self.now_ms = now_ms
        self._last_uses: LRUCache[str, int] = LRUCache(_MAX_CACHED_USES)
        self._listeners: list[Callable[[str], None]] = []

    def on_revoked(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the id of each token that this process revokes, so that its connections can be
        closed."""
        self._listeners.append(listener)

    async def owner_of(self, token: Token) -> TokenOwner | None:
        """The owner of a valid token, or None. Queries the database every time, so that a revocation has
        effect at once."""
        now_ms = self.now_ms()
        async with self._database.transaction(readonly=True) as connection:
            row = await agent_tokens.fetch_token(connection, token.token_id)
        if row is None or not token.matches(row.hash) or not row.is_valid(now_ms):
            return None
        await self._record_use(token.token_id, now_ms)
        return TokenOwner(row.agent_id, row.token_id)

    async def _record_use(self, token_id: str, now_ms: int) -> None:
        last_use = self._last_uses.get(token_id)
        if last_use is not None and now_ms < last_use + USE_RECORDED_EVERY_MS:
            return
        self._last_uses[token_id] = now_ms
        async with self._database.transaction() as connection:
            await agent_tokens.record_use(connection, token_id, now_ms)

    # -- for the operator --

    async def create(self, agent_id: str, note: str, lasts_ms: int | None) -> tuple[Token, TokenRow]:
        """Create a token. Only its hash is stored, so the token cannot be shown again."""
        wrong = agent_id_problem(agent_id)
        if wrong is not None:
            raise LocalError(f"{agent_id} cannot be an agent id: {wrong}", "Give its id without its node.")
        token = make_token(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
        now_ms = self.now_ms()
        expires_at = None if lasts_ms is None else now_ms + lasts_ms
        row = TokenRow(token.token_id, agent_id, token.hash, note, now_ms, expires_at)
        async with self._database.transaction() as connection:
            if not await agent_tokens.insert_token(connection, row):
                raise LocalError(
                    f"The agent {agent_id} has {agent_tokens.MAX_TOKENS} tokens, which is the limit.",
                    "Revoke unused tokens; revoked tokens are deleted after a month.",
                )
        return token, row

    async def list_tokens(self, agent_id: str | None) -> list[TokenRow]:
        async with self._database.transaction(readonly=True) as connection:
            return await agent_tokens.list_tokens(connection, agent_id, MAX_LISTED)

    async def revoke(self, agent_id: str, token_id: str | None) -> list[str]:
        """Revoke one token of an agent, or all of them."""
        async with self._database.transaction() as connection:
            revoked = await agent_tokens.revoke_tokens(connection, agent_id, token_id, self.now_ms())
        if not revoked:
            which = "no token" if token_id is None else f"no token {token_id}"
            raise LocalError(f"The agent {agent_id} has {which}.", "`palaver agents token list` shows its tokens.")
        for revoked_id in revoked:
            for listener in self._listeners:
                listener(revoked_id)
        return revoked


DAY_MS: Final = 24 * 3_600_000
MAX_DAYS: Final = 3_650
MAX_NOTE_LENGTH: Final = 200


def commands(tokens: AgentTokens) -> Mapping[str, Command]:
    """The commands by their names on the control socket."""
    return {
        "agents-token-create": partial(create, tokens),
        "agents-token-list": partial(list_tokens, tokens),
        "agents-token-revoke": partial(revoke, tokens),
    }


async def create(tokens: AgentTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Create a token. The result contains the token, which is not shown again."""
    arguments = Arguments(given)
    note = arguments.optional_text("note") or ""
    if len(note) > MAX_NOTE_LENGTH:
        raise LocalError(f"The note has more than {MAX_NOTE_LENGTH} characters.", "Write a shorter one.")
    days = None if given.get("days") is None else arguments.number("days", 1, MAX_DAYS)
    lasts_ms = None if days is None else days * DAY_MS
    token, row = await tokens.create(arguments.text("agent"), note, lasts_ms)
    return {**_token_json(row, tokens.now_ms()), "token": token.text}


async def list_tokens(tokens: AgentTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """List the tokens of one agent or of all, including expired and revoked ones."""
    rows = await tokens.list_tokens(Arguments(given).optional_text("agent"))
    now_ms = tokens.now_ms()
    return {"tokens": [_token_json(row, now_ms) for row in rows]}


async def revoke(tokens: AgentTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Revoke one token of an agent, or with `all` all of them."""
    arguments = Arguments(given)
    agent_id, token_id = arguments.text("agent"), arguments.optional_text("token_id")
    if (token_id is None) != arguments.flag("all"):
        raise LocalError("Either one token or all can be revoked.", "Give the id of a token, or use --all.")
    return {"agent_id": agent_id, "revoked": sorted(await tokens.revoke(agent_id, token_id))}


def _token_json(row: TokenRow, now_ms: int) -> Mapping[str, Any]:
    validity = "good" if row.is_valid(now_ms) else "expired"
    return {
        "token_id": row.token_id,
        "agent_id": row.agent_id,
        "state": validity if row.revoked_at is None else "revoked",
        "note": row.note,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }
