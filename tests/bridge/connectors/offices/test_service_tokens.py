"""Tokens for offices given, checked and revoked."""

import logging
from typing import Any

import pytest
import structlog

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, AgentTokens
from bridge.connectors.offices.service_tokens import OfficeTokens
from bridge.connectors.offices.tokens import Grant, make_token, read_token
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


async def test_a_token_shows_what_it_allows(tokens: OfficeTokens, database: Database) -> None:
    """Its owner, its roles and its offices. Of the secret nothing is in the database."""
    text = await tokens.create(
        "Alice, laptop", ["computer", "agent", "agent"], ["kitchen", "team-*", "kitchen"]
    )
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


async def test_where_there_is_no_token_nobody_comes(tokens: OfficeTokens) -> None:
    """ "None configured → nobody connects." """
    assert await tokens.check(None) is None
    assert await tokens.check("") is None
    assert await tokens.check(STRANGER) is None


async def test_a_secret_that_is_not_its_own_opens_nothing(tokens: OfficeTokens) -> None:
    """An id that is known with another secret, and a checksum that is right for that."""
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
    "shown",
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
    ids=lambda shown: repr(shown)[:20],
)
async def test_whatever_a_stranger_shows_is_answered(tokens: OfficeTokens, shown: Any) -> None:
    """With a no, and without an exception: who connects has said nothing true yet."""
    assert await tokens.check(shown) is None


async def test_a_token_of_an_agent_opens_no_office(
    tokens: OfficeTokens, database: Database, clock: Clock
) -> None:
    """Nor does it under the prefix of the others."""
    of_agent, _ = await AgentTokens(database, now_ms=clock).create("worker-1", "", None)
    assert await tokens.check(of_agent.text) is None
    assert await tokens.check(of_agent.text.replace("plv_", "plo_")) is None


async def test_it_ends_when_its_time_has_come(tokens: OfficeTokens, clock: Clock) -> None:
    """To the millisecond; also for who is connected since before."""
    text, other = await tokens.create("alice", ["agent"], (), DAY_MS), await tokens.create("bob", ["agent"])
    ids = {id_of(text), id_of(other)}
    clock.advance(DAY_MS - 1)
    assert await tokens.check(text) is not None
    assert await tokens.still_good(ids) == ids
    clock.advance(1)
    assert await tokens.check(text) is None
    assert await tokens.still_good(ids) == {id_of(other)}


async def test_it_ends_at_once_when_it_is_revoked(tokens: OfficeTokens, clock: Clock) -> None:
    """And whoever is connected with it is named; the others stay."""
    told: list[str] = []
    tokens.on_revoked(told.append)
    text, other = await tokens.create("alice", ["agent"]), await tokens.create("alice", ["agent"])
    assert await tokens.check(text) is not None
    await tokens.revoke(id_of(text))
    assert told == [id_of(text)]
    assert await tokens.check(text) is None
    assert await tokens.check(other) is not None
    clock.advance(5)
    await tokens.revoke(id_of(text))
    found = await tokens.find(id_of(text))
    assert found is not None
    assert found.revoked_at == NOW


async def test_what_cannot_be_revoked_is_not_said_again(tokens: OfficeTokens) -> None:
    """It may be a whole token, pasted by mistake."""
    text = await tokens.create("alice", ["agent"])
    for named in (text, "no-such-id", ""):
        with pytest.raises(LocalError, match="has this id") as refused:
            await tokens.revoke(named)
        assert text[14:] not in str(refused.value)
    assert await tokens.check(text) is not None


async def test_two_processes_agree(database_address: DatabaseAddress, clock: Clock) -> None:
    """What one gives the other knows, and what one revokes is worth nothing at the other from then on."""
    async with pool_on(database_address) as one, pool_on(database_address) as other:
        here, there = OfficeTokens(one, clock), OfficeTokens(other, clock)
        text = await here.create("alice", ["agent"])
        grant = await there.check(text)
        assert grant == await here.check(text)
        assert grant is not None
        await here.revoke(id_of(text))
        assert await there.check(text) is None
        assert await there.still_good([grant.token_id]) == frozenset()


async def test_its_use_is_noted_to_the_minute(tokens: OfficeTokens, clock: Clock, database: Database) -> None:
    """Not with every connection, whichever process it comes to. Who shows a wrong one has not used it."""
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


async def test_no_log_holds_a_token(tokens: OfficeTokens, caplog: pytest.LogCaptureFixture) -> None:
    """Neither one that is good nor one that is not."""
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as said:
        text = await tokens.create("alice", ["agent"])
        await tokens.check(text)
        await tokens.revoke(id_of(text))
        await tokens.check(text)
        await tokens.check(STRANGER)
    for one in (text, STRANGER):
        assert one[14:] not in caplog.text
        assert one[14:] not in str(said)


@pytest.mark.parametrize(
    ("owner", "roles", "offices", "part"),
    [
        ("", ["agent"], [], "An owner has"),
        ("x" * 256, ["agent"], [], "An owner has"),
        ("a\nb", ["agent"], [], "An owner has"),
        ("alice", [], [], "one role at least"),
        ("alice", ["admin"], [], "no role admin"),
        ("alice", ["agent"], [""], "An office has"),
        ("alice", ["agent"], ["a"] * 101, "100 offices at most"),
    ],
)
async def test_what_cannot_be_is_refused(
    tokens: OfficeTokens, owner: str, roles: list[str], offices: list[str], part: str
) -> None:
    """In a sentence for the operator, and nothing is kept."""
    with pytest.raises(LocalError, match=part):
        await tokens.create(owner, roles, offices)
    assert await tokens.kept() == []


async def test_there_are_so_many_and_no_more(tokens: OfficeTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence too."""
    monkeypatch.setattr(office_tokens, "MAX_TOKENS", 1)
    await tokens.create("alice", ["agent"])
    with pytest.raises(LocalError, match="There are 1 tokens"):
        await tokens.create("alice", ["agent"])
