"""What tokens for offices are made of, and what one allows."""

import dataclasses
from typing import Any

import pytest

from bridge.agents.attached import tokens as agent_tokens
from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES
from bridge.connectors.offices.tokens import (
    MOST_PATTERNS,
    Grant,
    make_token,
    read_token,
    wrong_offices,
    wrong_owner,
    wrong_roles,
)

OF_AGENT = agent_tokens.make_token(bytes(range(ID_BYTES)), bytes(range(SECRET_BYTES)))
TOKEN = make_token(bytes(range(ID_BYTES)), bytes(range(SECRET_BYTES)))
BOTH = frozenset({"agent", "computer"})


def test_it_is_like_a_token_of_an_agent() -> None:
    """But for its prefix, so that scanners of secrets tell them apart, and for the checksum, which is of the
    prefix too."""
    assert TOKEN.text.startswith(f"plo_{TOKEN.token_id}")
    assert TOKEN.text[4:-6] == OF_AGENT.text[4:-6]
    assert TOKEN.text[-6:] != OF_AGENT.text[-6:]
    for filling in (b"\0", b"\xff"):
        made = make_token(filling * ID_BYTES, filling * SECRET_BYTES)
        assert (len(made.token_id), len(made.text)) == (10, 63)
        assert read_token(made.text) == made
    assert TOKEN.text not in repr(TOKEN)


def test_neither_is_taken_for_the_other() -> None:
    """Whoever may be an agent of the node may not therefore come into an office."""
    assert read_token(OF_AGENT.text) is None
    assert read_token(OF_AGENT.text.replace("plv_", "plo_")) is None
    assert agent_tokens.parse_token(TOKEN.text) is None


def test_the_hash_tells_one_from_another() -> None:
    """It is all that is kept."""
    other = make_token(bytes(range(ID_BYTES)), bytes(SECRET_BYTES))
    assert other.token_id == TOKEN.token_id
    assert TOKEN.matches(TOKEN.hash)
    assert not other.matches(TOKEN.hash)
    assert not TOKEN.matches(b"")


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "plo_",
        TOKEN.text[:-1],
        TOKEN.text + "0",
        TOKEN.text + "\n",
        " " + TOKEN.text,
        "Bearer " + TOKEN.text,
        TOKEN.text.replace("plo_", "PLO_"),
        TOKEN.text[:20] + ("a" if TOKEN.text[20] != "a" else "b") + TOKEN.text[21:],
        TOKEN.text[:-1] + ("a" if TOKEN.text[-1] != "a" else "b"),
        TOKEN.text[:-1] + "é",
        TOKEN.text[:-1] + "\ud800",
        TOKEN.text[:-1] + "\0",
        TOKEN.text * 100_000,
        "plo_" + "0" * 10_000_000,
        None,
        True,
        17,
        TOKEN.text.encode(),
        [TOKEN.text],
        {"token": TOKEN.text},
    ],
    ids=lambda shown: repr(shown)[:20],
)
def test_what_a_stranger_shows_is_no_token(shown: Any) -> None:
    """Whatever it is, of whatever length: nobody looks for it."""
    assert read_token(shown) is None


def test_a_role_is_allowed_that_is_named() -> None:
    """And no other."""
    grant = Grant("id", "alice", frozenset({"computer"}))
    assert [role for role in ("agent", "computer", "Computer", "", "*") if grant.allows_role(role)] == [
        "computer"
    ]


def test_offices_are_allowed_that_are_named() -> None:
    """By an id or a pattern; where none is, all are. An office of another node is another one."""
    known = ["kitchen", "Kitchen", "team-a", "team-a@there.test", "kitchen@there.test", "den"]

    def allowed(*offices: str) -> list[str]:
        grant = Grant("id", "alice", BOTH, offices)
        return [one for one in known if grant.allows_office(one)]

    assert allowed() == known == allowed("*")
    assert allowed("kitchen") == ["kitchen"]
    assert allowed("kitchen", "team-*") == ["kitchen", "team-a", "team-a@there.test"]
    assert allowed("*@there.test") == ["team-a@there.test", "kitchen@there.test"]
    assert allowed("kit?hen", "[k]itchen", "") == []


def test_a_grant_stays_as_it_was_given() -> None:
    """Who holds one cannot make more of it."""
    grant = Grant("id", "alice", BOTH)
    with pytest.raises(dataclasses.FrozenInstanceError):
        grant.offices = ("*",)  # type: ignore[misc]  # that it cannot be is what is shown


@pytest.mark.parametrize("owner", ["a", "Alice, laptop", "ä" * 127, "x" * 255])
def test_whose_it_may_be(owner: str) -> None:
    """It is free text."""
    assert wrong_owner(owner) is None


@pytest.mark.parametrize(
    "owner", ["", " ", " a", "a ", "x" * 256, "ä" * 128, "a\nb", "a\0", "\ud800", "\x1b[31m"]
)
def test_whose_it_may_not_be(owner: str) -> None:
    """It is read in audits, a line for each act."""
    assert wrong_owner(owner) is not None


def test_it_is_for_a_role_at_least() -> None:
    """One that there is."""
    assert wrong_roles(["agent"]) is None
    assert wrong_roles(["computer", "agent"]) is None
    assert "one role at least" in (wrong_roles([]) or "")
    assert "There is no role admin" in (wrong_roles(["agent", "admin"]) or "")
    assert wrong_roles(["Agent"]) is not None


def test_it_is_for_offices_that_there_can_be() -> None:
    """And so many at most."""
    assert wrong_offices([]) is None
    assert wrong_offices(["kitchen", "team-*", "*@there.test"] + ["a"] * (MOST_PATTERNS - 3)) is None
    assert wrong_offices(["a"] * (MOST_PATTERNS + 1)) is not None
    for office in ("", " ", "a\nb", "a\0", "\ud800", "x" * 256):
        assert wrong_offices(["kitchen", office]) is not None
