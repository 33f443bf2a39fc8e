"""Tokens of attached agents."""

from storage.agents.tokens import (
    MAX_TOKENS,
    RETENTION_MS,
    TokenRow,
    fetch_token,
    insert_token,
    list_tokens,
    record_use,
    revoke_tokens,
)
from storage.database import Database

NOW = 1_800_000_000_000


def row(token_id: str, agent_id: str = "worker-1", created_at: int = NOW, expires_at: int | None = None) -> TokenRow:
    return TokenRow(token_id, agent_id, token_id.encode().ljust(32, b"."), "a note", created_at, expires_at)


async def test_tokens_are_stored_and_listed(database: Database) -> None:
    """By their public part. A token id is stored once."""
    async with database.transaction() as connection:
        assert await insert_token(connection, row("a"))
        assert await insert_token(connection, row("b", created_at=NOW + 1, expires_at=NOW + 5))
        assert await insert_token(connection, row("c", "another"))
        assert await fetch_token(connection, "a") == row("a")
        assert await fetch_token(connection, "z") is None
        assert [one.token_id for one in await list_tokens(connection, "worker-1", 10)] == ["a", "b"]
        assert [one.token_id for one in await list_tokens(connection, None, 10)] == ["c", "a", "b"]
        assert len(await list_tokens(connection, None, 1)) == 1


async def test_the_last_use_is_recorded(database: Database) -> None:
    """An older use changes nothing."""
    async with database.transaction() as connection:
        await insert_token(connection, row("a"))
        for at in (NOW + 5, NOW + 3):
            await record_use(connection, "a", at)
        found = await fetch_token(connection, "a")
        assert found is not None
        assert found.last_used_at == NOW + 5


async def test_a_token_expires_or_is_revoked(database: Database) -> None:
    """One token or all tokens of an agent; a revoked token keeps its time."""
    assert row("a").is_valid(NOW)
    assert row("a", expires_at=NOW + 1).is_valid(NOW)
    assert not row("a", expires_at=NOW).is_valid(NOW)
    async with database.transaction() as connection:
        for name, agent in (("a", "worker-1"), ("b", "worker-1"), ("c", "another")):
            await insert_token(connection, row(name, agent))
        assert await revoke_tokens(connection, "worker-1", "c", NOW) == []
        assert await revoke_tokens(connection, "worker-1", "a", NOW) == ["a"]
        assert sorted(await revoke_tokens(connection, "worker-1", None, NOW + 1)) == ["a", "b"]
        found = {one.token_id: one for one in await list_tokens(connection, None, 10)}
    assert {name: one.revoked_at for name, one in found.items()} == {"a": NOW, "b": NOW + 1, "c": None}
    assert [found[name].is_valid(NOW + 1) for name in "abc"] == [False, False, True]


async def test_the_tokens_of_an_agent_are_limited(database: Database) -> None:
    """Tokens that ended long ago are deleted for new ones."""
    async with database.transaction() as connection:
        for number in range(MAX_TOKENS):
            assert await insert_token(connection, row(str(number)))
        assert not await insert_token(connection, row("x"))
        assert await insert_token(connection, row("x", "another"))
        await revoke_tokens(connection, "worker-1", "3", NOW)
        assert not await insert_token(connection, row("y", created_at=NOW + RETENTION_MS))
        assert await insert_token(connection, row("y", created_at=NOW + RETENTION_MS + 1))
        assert await fetch_token(connection, "3") is None
