"""Creating, checking and revoking tokens for offices."""

import logging
from typing import Any

import pytest
import structlog

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, AgentTokens
from bridge.connectors.offices.tokens import Grant, OfficeTokens, make_token, read_token
from storage.connect import DatabaseAddress
from storage.database import Database
from storage.errors import LocalError
from storage.offices import tokens as office_tokens
from storage.offices.tokens import USE_RECORDED_EVERY_MS
from tests.support.agents import NOW, Clock
from tests.support.postgres import pool_on

DAY_MS = 24 * 3_600_000
BOTH = frozenset({"agent", "computer"})
STRANGER = make_token(b"\1" * ID_BYTES, b"\2" * SECRET_BYTES).text


def id_of(text: str) -> str:
    token = read_token(text)
    assert token is not None
    return token.token_id


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tokens(database: Database, clock: Clock) -> OfficeTokens:
    return OfficeTokens(database, clock)


async def test_a_token_carries_its_permissions(tokens: OfficeTokens, database: Database) -> None:
    """Owner, roles and offices. The secret is not in the database."""
    text = await tokens.create("Alice, laptop", ["computer", "agent", "agent"], ["kitchen", "team-*", "kitchen"])
    grant = await tokens.check(text)
    assert grant == Grant(id_of(text), "Alice, laptop", BOTH, ("kitchen", "team-*"))
    assert grant.allows_office("team-a")
    assert not grant.allows_office("den")
    async with database.transaction() as connection:
        everything = str(await connection.fetch("TABLE office_tokens"))
    assert text[14:] not in everything
    every_office = await tokens.check(await tokens.create("bob", ["agent"]))
    assert every_office is not None
    assert every_office.offices == ()
    assert not every_office.allows_role("computer")


async def test_without_tokens_no_client_can_connect(tokens: OfficeTokens) -> None:
    """ "None configured → nobody connects." """
    assert await tokens.check(None) is None
    assert await tokens.check("") is None
    assert await tokens.check(STRANGER) is None


async def test_a_wrong_secret_is_refused(tokens: OfficeTokens) -> None:
    """Together with a known id and a correct checksum."""
    text = await tokens.create("alice", ["agent"])
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number = 0
    for digit in id_of(text):
        number = number * 62 + digits.index(digit)
    forged = make_token(number.to_bytes(ID_BYTES), b"\2" * SECRET_BYTES)
    assert forged.token_id == id_of(text)
    assert await tokens.check(forged.text) is None
    assert await tokens.check(text) is not None


@pytest.mark.parametrize(
    "value",
    [
        "plo_",
        "' OR true --",
        "%",
        "\0",
        "\ud800",
        STRANGER + "\n",
        STRANGER * 100_000,
        "x" * 10_000_000,
        True,
        -1,
        1.5,
        b"plo_",
        [STRANGER],
        {"token": STRANGER},
        {},
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_other_values_are_refused(tokens: OfficeTokens, value: Any) -> None:
    """Without an exception: a client may send anything."""
    assert await tokens.check(value) is None


async def test_a_token_of_an_agent_is_refused(tokens: OfficeTokens, database: Database, clock: Clock) -> None:
    """Also with the prefix of tokens for offices."""
    of_agent, _ = await AgentTokens(database, now_ms=clock).create("worker-1", "", None)
    assert await tokens.check(of_agent.text) is None
    assert await tokens.check(of_agent.text.replace("plv_", "plo_")) is None


async def test_a_token_expires(tokens: OfficeTokens, clock: Clock) -> None:
    """To the millisecond, also for existing connections."""
    text, other = await tokens.create("alice", ["agent"], (), DAY_MS), await tokens.create("bob", ["agent"])
    ids = {id_of(text), id_of(other)}
    clock.advance(DAY_MS - 1)
    assert await tokens.check(text) is not None
    assert await tokens.valid_ids(ids) == ids
    clock.advance(1)
    assert await tokens.check(text) is None
    assert await tokens.valid_ids(ids) == {id_of(other)}


async def test_a_revocation_takes_effect_at_once(tokens: OfficeTokens, clock: Clock) -> None:
    """Listeners receive the id of the token. Other tokens stay valid."""
    revoked: list[str] = []
    tokens.on_revoked(revoked.append)
    text, other = await tokens.create("alice", ["agent"]), await tokens.create("alice", ["agent"])
    assert await tokens.check(text) is not None
    await tokens.revoke(id_of(text))
    assert revoked == [id_of(text)]
    assert await tokens.check(text) is None
    assert await tokens.check(other) is not None
    clock.advance(5)
    await tokens.revoke(id_of(text))
    found = await tokens.find(id_of(text))
    assert found is not None
    assert found.revoked_at == NOW


async def test_the_error_does_not_repeat_an_unknown_id(tokens: OfficeTokens) -> None:
    """It may be a whole token, pasted by mistake."""
    text = await tokens.create("alice", ["agent"])
    for named in (text, "no-such-id", ""):
        with pytest.raises(LocalError, match="has this id") as refused:
            await tokens.revoke(named)
        assert text[14:] not in str(refused.value)
    assert await tokens.check(text) is not None


async def test_processes_share_tokens(database_address: DatabaseAddress, clock: Clock) -> None:
    """A token created by one process is known to another, and so is its revocation."""
    async with pool_on(database_address) as one, pool_on(database_address) as other:
        here, there = OfficeTokens(one, clock), OfficeTokens(other, clock)
        text = await here.create("alice", ["agent"])
        grant = await there.check(text)
        assert grant == await here.check(text)
        assert grant is not None
        await here.revoke(id_of(text))
        assert await there.check(text) is None
        assert await there.valid_ids([grant.token_id]) == frozenset()


async def test_the_last_use_is_stored_once_per_minute(tokens: OfficeTokens, clock: Clock, database: Database) -> None:
    """Whichever process is used. A refused token counts as not used."""
    text = await tokens.create("alice", ["agent"])
    again = OfficeTokens(database, clock)

    async def used_at() -> int | None:
        found = await tokens.find(id_of(text))
        assert found is not None
        return found.last_used_at

    assert await used_at() is None
    await tokens.check(text)
    assert await used_at() == NOW
    clock.advance(USE_RECORDED_EVERY_MS - 1)
    await again.check(text)
    assert await used_at() == NOW
    clock.advance(1)
    await again.check(text)
    assert await used_at() == NOW + USE_RECORDED_EVERY_MS
    await tokens.revoke(id_of(text))
    clock.advance(USE_RECORDED_EVERY_MS)
    await tokens.check(text)
    assert await used_at() == NOW + USE_RECORDED_EVERY_MS


async def test_tokens_are_not_logged(tokens: OfficeTokens, caplog: pytest.LogCaptureFixture) -> None:
    """Neither valid nor invalid ones."""
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as logs:
        text = await tokens.create("alice", ["agent"])
        await tokens.check(text)
        await tokens.revoke(id_of(text))
        await tokens.check(text)
        await tokens.check(STRANGER)
    for one in (text, STRANGER):
        assert one[14:] not in caplog.text
        assert one[14:] not in str(logs)


@pytest.mark.parametrize(
    ("owner", "roles", "offices", "part"),
    [
        ("", ["agent"], [], "An owner is"),
        ("x" * 256, ["agent"], [], "An owner is"),
        ("a\nb", ["agent"], [], "An owner is"),
        ("alice", [], [], "at least one role"),
        ("alice", ["admin"], [], "Unknown role admin"),
        ("alice", ["agent"], [""], "An office id is"),
        ("alice", ["agent"], ["a"] * 101, "at most 100 offices"),
    ],
)
async def test_invalid_tokens_are_not_created(
    tokens: OfficeTokens, owner: str, roles: list[str], offices: list[str], part: str
) -> None:
    """The error is for the operator, and no token is stored."""
    with pytest.raises(LocalError, match=part):
        await tokens.create(owner, roles, offices)
    assert await tokens.list_tokens() == []


async def test_the_number_of_tokens_is_limited(tokens: OfficeTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the maximum, no token is created."""
    monkeypatch.setattr(office_tokens, "MAX_TOKENS", 1)
    await tokens.create("alice", ["agent"])
    with pytest.raises(LocalError, match="maximum of 1 tokens"):
        await tokens.create("alice", ["agent"])
