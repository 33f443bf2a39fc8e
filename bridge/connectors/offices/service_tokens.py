"""Gives tokens for offices, and knows what one allows."""

import secrets
from collections.abc import Callable, Collection, Sequence
from typing import Final

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES
from bridge.connectors.offices.tokens import (
    Grant,
    make_token,
    read_token,
    wrong_offices,
    wrong_owner,
    wrong_roles,
)
from storage.database import Database
from storage.errors import LocalError
from storage.offices import tokens as office_tokens
from storage.offices.tokens import OfficeTokenRow

_HELP: Final = "`palaver offices token create --help` shows how one is made."


class OfficeTokens:
    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self.now_ms = now_ms
        self._revoked: list[Callable[[str], None]] = []

    def on_revoked(self, listener: Callable[[str], None]) -> None:
        """Be told the ids of tokens that this process revokes: who is connected with one is to leave."""
        self._revoked.append(listener)

    async def check(self, shown: object) -> Grant | None:
        """What a stranger showed, whatever it is. None for one that is not known, or is not good any more.
        Postgres is asked every time: a token that was revoked is so from that moment on."""
        token = read_token(shown)
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

    async def still_good(self, token_ids: Collection[str]) -> frozenset[str]:
        """Of those with which somebody is connected. Who has another one is to leave: its time has come, or
        another process has revoked it."""
        async with self._database.transaction(readonly=True) as connection:
            return await office_tokens.list_valid_ids(connection, token_ids, self.now_ms())

    # -- for the operator --

    async def create(
        self, owner: str, roles: Sequence[str], offices: Sequence[str] = (), lasts_ms: int | None = None
    ) -> str:
        """The token itself, which can be seen now, and never again. Without `offices` it is for all of them,
        without `lasts_ms` it lasts until it is revoked."""
        wrong = wrong_owner(owner) or wrong_roles(roles) or wrong_offices(offices)
        if wrong is not None:
            raise LocalError(wrong, _HELP)
        token = make_token(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
        now_ms = self.now_ms()
        row = OfficeTokenRow(
            token.token_id,
            token.hash,
            owner,
            tuple(sorted(set(roles))),
            tuple(dict.fromkeys(offices)),
            now_ms,
            None if lasts_ms is None else now_ms + lasts_ms,
        )
        async with self._database.transaction() as connection:
            if not await office_tokens.insert_token(connection, row):
                raise LocalError(
                    f"There are {office_tokens.MAX_TOKENS} tokens for offices, and more are not kept.",
                    "Revoke those that nobody uses; they are forgotten after a month.",
                )
        return token.text

    async def kept(self) -> list[OfficeTokenRow]:
        """Those that are not good any more among them."""
        async with self._database.transaction(readonly=True) as connection:
            return await office_tokens.list_tokens(connection)

    async def find(self, token_id: str) -> OfficeTokenRow | None:
        async with self._database.transaction(readonly=True) as connection:
            return await office_tokens.fetch_token(connection, token_id)

    async def revoke(self, token_id: str) -> None:
        """Again, it changes nothing: it keeps the time of the first."""
        async with self._database.transaction() as connection:
            is_there = await office_tokens.revoke_token(connection, token_id, self.now_ms())
        if not is_there:
            # What was named may be a whole token, so it is not said again.
            raise LocalError(
                "No token for offices has this id.",
                "`palaver offices token list` shows those that there are.",
            )
        for listener in self._revoked:
            listener(token_id)
