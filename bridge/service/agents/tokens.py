"""Gives tokens to agents, and knows whose a token is."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridge.address import wrong_agent_id
from bridge.agent_tokens import ID_BYTES, SECRET_BYTES, Token, make_token
from federation.bounded_cache import BoundedCache
from storage import agent_tokens
from storage.agent_tokens import TokenRow
from storage.database import Database
from storage.errors import LocalError

NOTED_EVERY_MS: Final = 60_000
MOST_LISTED: Final = 1_000
_MOST_NOTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a token is."""

    agent_id: str
    token_id: str


class AgentTokens:
    def __init__(self, database: Database, *, now_ms: Callable[[], int]) -> None:
        self._database = database
        self.now_ms = now_ms
        self._noted: BoundedCache[str, int] = BoundedCache(_MOST_NOTED)
        self._revoked: list[Callable[[str], None]] = []

    def on_revoked(self, listener: Callable[[str], None]) -> None:
        """Be told the ids of tokens that this process revokes: who is connected with one is to leave."""
        self._revoked.append(listener)

    async def holder(self, token: Token) -> Holder | None:
        """None for one that is not known, or is not good any more. It is asked every time: a token that was
        revoked is so from that moment on."""
        now_ms = self.now_ms()
        async with self._database.transaction(readonly=True) as connection:
            row = await agent_tokens.fetch_token(connection, token.token_id)
        if row is None or not token.matches(row.hash) or not row.is_good(now_ms):
            return None
        await self._note_use(token.token_id, now_ms)
        return Holder(row.agent_id, row.token_id)

    async def _note_use(self, token_id: str, now_ms: int) -> None:
        noted = self._noted.get(token_id)
        if noted is not None and now_ms < noted + NOTED_EVERY_MS:
            return
        self._noted.put(token_id, now_ms)
        async with self._database.transaction() as connection:
            await agent_tokens.note_use(connection, token_id, now_ms)

    # -- for the operator --

    async def create(self, agent_id: str, note: str, lasts_ms: int | None) -> tuple[Token, TokenRow]:
        """The token can be seen now, and never again."""
        wrong = wrong_agent_id(agent_id)
        if wrong is not None:
            raise LocalError(f"There can be no agent {agent_id}: {wrong}", "Give its id without its node.")
        token = make_token(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
        now_ms = self.now_ms()
        expires_at = None if lasts_ms is None else now_ms + lasts_ms
        row = TokenRow(token.token_id, agent_id, token.hash, note, now_ms, expires_at)
        async with self._database.transaction() as connection:
            if not await agent_tokens.insert_token(connection, row):
                raise LocalError(
                    f"The agent {agent_id} has {agent_tokens.MOST} tokens, and more are not kept.",
                    "Revoke those that nobody uses; they are forgotten after a month.",
                )
        return token, row

    async def kept(self, agent_id: str | None) -> list[TokenRow]:
        async with self._database.transaction(readonly=True) as connection:
            return await agent_tokens.list_tokens(connection, agent_id, MOST_LISTED)

    async def revoke(self, agent_id: str, token_id: str | None) -> list[str]:
        """One of an agent, or all of them."""
        async with self._database.transaction() as connection:
            revoked = await agent_tokens.revoke_tokens(connection, agent_id, token_id, self.now_ms())
        if not revoked:
            which = "no token" if token_id is None else f"no token {token_id}"
            raise LocalError(
                f"The agent {agent_id} has {which}.",
                "`palaver agents token list` shows those that there are.",
            )
        for one in revoked:
            for listener in self._revoked:
                listener(one)
        return revoked
