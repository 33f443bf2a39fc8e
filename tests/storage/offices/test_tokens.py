"""Tokens for offices."""

import asyncio

import asyncpg
import pytest

from storage.database import Database
from storage.offices import tokens as office_tokens
from storage.offices.tokens import (
    RETENTION_MS,
    USE_RECORDED_EVERY_MS,
    OfficeTokenRow,
    fetch_token,
    insert_token,
    list_tokens,
    list_valid_ids,
    record_use,
    revoke_token,
)

NOW = 1_800_000_000_000


def row(
    token_id: str,
    owner: str = "alice",
    roles: tuple[str, ...] = ("agent",),
    offices: tuple[str, ...] = ("kitchen", "team-*"),
    made_at: int = NOW,
    expires_at: int | None = None,
) -> OfficeTokenRow:
    return OfficeTokenRow(token_id, token_id.encode().ljust(32, b"."), owner, roles, offices, made_at, expires_at)


async def test_tokens_are_stored_and_listed(database: Database) -> None:
    """By their public part."""
    async with database.transaction() as connection:
        assert await insert_token(connection, row("a", made_at=NOW + 1))
        assert await insert_token(connection, row("b", expires_at=NOW + 5, offices=()))
        assert await insert_token(connection, row("c", "Alice", ("agent", "computer")))
        assert await fetch_token(connection, "a") == row("a", made_at=NOW + 1)
        assert await fetch_token(connection, "b") == row("b", expires_at=NOW + 5, offices=())
        assert await fetch_token(connection, "z") is None
        assert [one.token_id for one in await list_tokens(connection)] == ["c", "b", "a"]


async def test_an_id_is_stored_once(database: Database) -> None:
    """A second token with the same id would have the rights of the first."""
    async with database.transaction() as connection:
        await insert_token(connection, row("a"))
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.transaction() as connection:
            await insert_token(connection, row("a", "eve"))


@pytest.mark.parametrize(
    "wrong",
    [
        row("a", roles=()),
        row("a", roles=("agent", "admin")),
        row("a", owner=""),
        row("a", owner="ä" * 128),
        row("a")._replace(hash=b"short"),
    ],
)
async def test_a_token_without_roles_is_refused(database: Database, wrong: OfficeTokenRow) -> None:
    """The caller must not insert one; the database checks it as well."""
    with pytest.raises(asyncpg.CheckViolationError):
        async with database.transaction() as connection:
            await insert_token(connection, wrong)


async def test_the_last_use_is_recorded_by_the_minute(database: Database) -> None:
    """By whichever process; an older use changes nothing."""
    async with database.transaction() as connection:
        await insert_token(connection, row("a"))
        noted = []
        for at in (NOW, NOW + USE_RECORDED_EVERY_MS - 1, NOW + USE_RECORDED_EVERY_MS, NOW + 3):
            await record_use(connection, "a", at)
            found = await fetch_token(connection, "a")
            assert found is not None
            noted.append(found.last_used_at)
    assert noted == [NOW, NOW, NOW + USE_RECORDED_EVERY_MS, NOW + USE_RECORDED_EVERY_MS]


def test_when_a_use_is_recorded() -> None:
    """Nothing is recorded when the clock was set back."""
    assert row("a").is_use_due(NOW)
    used = row("a")._replace(last_used_at=NOW)
    assert used.is_use_due(NOW + USE_RECORDED_EVERY_MS)
    assert not used.is_use_due(NOW + USE_RECORDED_EVERY_MS - 1)
    assert not used.is_use_due(0)


async def test_a_token_expires_or_is_revoked(database: Database) -> None:
    """A revoked token keeps its time. The statement and the row agree."""
    assert row("a").is_valid(NOW)
    assert row("a", expires_at=NOW + 1).is_valid(NOW)
    assert not row("a", expires_at=NOW).is_valid(NOW)
    async with database.transaction() as connection:
        for name, expires_at in (("a", None), ("b", NOW + 1), ("c", None)):
            await insert_token(connection, row(name, expires_at=expires_at))
        assert await list_valid_ids(connection, ["a", "b", "z"], NOW) == {"a", "b"}
        assert await list_valid_ids(connection, ["a", "b"], NOW + 1) == {"a"}
        assert await list_valid_ids(connection, [], NOW) == frozenset()
        assert not await revoke_token(connection, "z", NOW)
        for at in (NOW, NOW + 1):
            assert await revoke_token(connection, "a", at)
        found = {one.token_id: one for one in await list_tokens(connection)}
        assert found["a"].revoked_at == NOW
        assert [found[name].is_valid(NOW + 1) for name in "abc"] == [False, False, True]
        assert await list_valid_ids(connection, "abc", NOW + 1) == {"c"}


async def test_the_number_of_tokens_is_limited(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that ended long ago are deleted for new ones."""
    monkeypatch.setattr(office_tokens, "MAX_TOKENS", 3)
    async with database.transaction() as connection:
        assert await insert_token(connection, row("a"))
        assert await insert_token(connection, row("b", expires_at=NOW + 1))
        assert await insert_token(connection, row("c"))
        assert not await insert_token(connection, row("d"))
        await revoke_token(connection, "a", NOW)
        assert not await insert_token(connection, row("d", made_at=NOW + RETENTION_MS))
        assert await insert_token(connection, row("d", made_at=NOW + RETENTION_MS + 1))
        assert not await insert_token(connection, row("e", made_at=NOW + RETENTION_MS + 1))
        assert [one.token_id for one in await list_tokens(connection)] == ["b", "c", "d"]


async def test_concurrent_inserts_respect_the_limit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office_tokens, "MAX_TOKENS", 2)

    async def insert(token_id: str) -> bool:
        async with database.transaction() as connection:
            return await insert_token(connection, row(token_id))

    assert sorted(await asyncio.gather(*map(insert, "abcde"))) == [False, False, False, True, True]
