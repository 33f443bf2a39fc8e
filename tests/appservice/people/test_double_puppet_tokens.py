"""Tokens for acting as people."""

from collections.abc import Collection

import pytest

from appservice.homeserver.client import HomeserverClient
from appservice.people.double_puppets import DoublePuppets, PersonToken
from appservice.registration.namespaces import Namespaces
from appservice.registration.tokens import KEY_BYTES
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.appservice.homeservers import homeserver

ALICE, BOB = "@alice:their.server", "@bob:their.server"
NAMESPACES = Namespaces("their.server", "kitchen.local", "_agent_")
KEY = b"k" * KEY_BYTES
SENDER = "@palaver-0123:their.server"


def puppets(
    client: HomeserverClient,
    database: Database,
    *,
    key: bytes | None = KEY,
    as_token: str | None = None,
    others: Collection[str] = (SENDER,),
) -> DoublePuppets:
    return DoublePuppets(client, database, NAMESPACES, key=key, as_token=as_token, excluded=others, now_ms=lambda: 7)


async def test_is_person(database: Database) -> None:
    """Not a ghost, nor the sender of a registration."""
    async with homeserver(lambda request: {}) as at:
        ours = puppets(at.client, database)
        assert ours.is_person(ALICE)
        for other in ("@alice:other.server", "@_agent_worker-1:their.server", SENDER, "alice", ""):
            assert not ours.is_person(other)


async def test_login_and_logout(database: Database) -> None:
    """The stored token is encrypted, also for a node with another key."""
    async with homeserver(lambda request: {"user_id": ALICE}) as at:
        ours = puppets(at.client, database)
        assert not await ours.can_send_as(ALICE)
        assert await ours.login(ALICE) is None
        login_id = await ours.log_in(ALICE, "hers")
        assert await ours.tokens(ALICE) == [PersonToken("hers", login_id=login_id)]
        assert not await ours.can_send_as(BOB)
        found = await ours.login(ALICE)
        assert found is not None
        assert (found.login_id, found.made_at, found.refused_at) == (login_id, 7, None)
        async with database.transaction() as connection:
            rows = await connection.fetch("SELECT sealed FROM double_puppets")
        assert b"hers" not in rows[0][0]
        elsewhere = puppets(at.client, database, key=b"o" * KEY_BYTES)
        assert await elsewhere.tokens(ALICE) == []
        lost = await elsewhere.login(ALICE)
        assert lost is not None
        assert lost.refused_at == 7
        assert not await ours.log_out(BOB, login_id)
        assert await ours.log_out(ALICE, login_id)
        assert not await ours.can_send_as(ALICE)


async def test_only_valid_own_tokens_are_accepted(database: Database) -> None:
    """Others are refused, not stored, and not repeated in the error."""
    async with homeserver(lambda request: {"user_id": BOB}) as at:
        ours = puppets(at.client, database)
        for token, errcode in (
            ("theirs", "M_FORBIDDEN"), ("", "M_INVALID_PARAM"), ("x" * 5_000, "M_INVALID_PARAM"),
            ("a\nb", "M_INVALID_PARAM"), ("ü", "M_INVALID_PARAM"),
        ):  # fmt: skip
            with pytest.raises(MatrixError) as refused:
                await ours.log_in(ALICE, token)
            assert refused.value.errcode == errcode
            assert not token or token not in str(refused.value)
        assert len(at.server.requests) == 1
        with pytest.raises(MatrixError, match="does not accept access tokens"):
            await puppets(at.client, database, key=None).log_in(BOB, "theirs")
    async with homeserver(lambda request: (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "?"})) as at:
        with pytest.raises(MatrixError, match="does not know that access token"):
            await puppets(at.client, database).log_in(ALICE, "old")
    assert not await ours.can_send_as(ALICE)
    assert not await ours.can_send_as(BOB)


async def test_refused_token_is_not_used_again(database: Database) -> None:
    """A new one is."""
    async with homeserver(lambda request: {"user_id": ALICE}) as at:
        ours = puppets(at.client, database)
        await ours.log_in(ALICE, "old")
        (token,) = await ours.tokens(ALICE)
        await ours.mark_refused(ALICE, token)
        assert await ours.tokens(ALICE) == []
        found = await ours.login(ALICE)
        assert found is not None
        assert found.refused_at == 7
        await ours.log_in(ALICE, "new")
        # The refusal of the old token is noticed late.
        await ours.mark_refused(ALICE, token)
        assert [one.token for one in await ours.tokens(ALICE)] == ["new"]


async def test_second_registration_covers_all_people(database: Database) -> None:
    """A person's own token comes first."""
    async with homeserver(lambda request: {"user_id": ALICE}) as at:
        ours = puppets(at.client, database, as_token="all of them")
        assert await ours.tokens(BOB) == [PersonToken("all of them", BOB)]
        assert await ours.tokens("@_agent_worker-1:their.server") == []
        assert await ours.tokens("@bob:other.server") == []
        await ours.log_in(ALICE, "hers")
        assert [one.token for one in await ours.tokens(ALICE)] == ["hers", "all of them"]
        assert "hers" not in repr(await ours.tokens(ALICE))
