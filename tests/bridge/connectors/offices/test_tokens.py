"""The form of tokens for offices, and what they allow."""

import dataclasses
from typing import Any

import pytest

from bridge.agents.attached import tokens as agent_tokens
from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES
from bridge.connectors.offices.tokens import (
    MAX_OFFICES,
    Grant,
    make_token,
    offices_error,
    owner_error,
    read_token,
    roles_error,
)

OF_AGENT = agent_tokens.make_token(bytes(range(ID_BYTES)), bytes(range(SECRET_BYTES)))
TOKEN = make_token(bytes(range(ID_BYTES)), bytes(range(SECRET_BYTES)))
BOTH = frozenset({"agent", "computer"})


def test_the_form_of_a_token() -> None:
    """That of an attached agent's token, with another prefix, so that secret scanners can tell them apart,
    and a checksum that includes the prefix."""
    assert TOKEN.text.startswith(f"plo_{TOKEN.token_id}")
    assert TOKEN.text[4:-6] == OF_AGENT.text[4:-6]
    assert TOKEN.text[-6:] != OF_AGENT.text[-6:]
    for filling in (b"\0", b"\xff"):
        made = make_token(filling * ID_BYTES, filling * SECRET_BYTES)
        assert (len(made.token_id), len(made.text)) == (10, 63)
        assert read_token(made.text) == made
    assert TOKEN.text not in repr(TOKEN)


def test_tokens_of_agents_and_offices_are_not_interchangeable() -> None:
    """The permission to attach an agent does not include offices."""
    assert read_token(OF_AGENT.text) is None
    assert read_token(OF_AGENT.text.replace("plv_", "plo_")) is None
    assert agent_tokens.parse_token(TOKEN.text) is None


def test_the_hash_identifies_a_token() -> None:
    """Only the hash is stored."""
    other = make_token(bytes(range(ID_BYTES)), bytes(SECRET_BYTES))
    assert other.token_id == TOKEN.token_id
    assert TOKEN.matches(TOKEN.hash)
    assert not other.matches(TOKEN.hash)
    assert not TOKEN.matches(b"")


@pytest.mark.parametrize(
    "value",
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
    ids=lambda value: repr(value)[:20],
)
def test_other_values_are_no_tokens(value: Any) -> None:
    """Of any type and length. They are not looked up."""
    assert read_token(value) is None


def test_only_named_roles_are_allowed() -> None:
    """Spelled exactly."""
    grant = Grant("id", "alice", frozenset({"computer"}))
    assert [role for role in ("agent", "computer", "Computer", "", "*") if grant.allows_role(role)] == ["computer"]


def test_only_named_offices_are_allowed() -> None:
    """By id or pattern; without any, all are. An office of another node is a different one."""
    known = ["kitchen", "Kitchen", "team-a", "team-a@there.test", "kitchen@there.test", "den"]

    def allowed(*offices: str) -> list[str]:
        grant = Grant("id", "alice", BOTH, offices)
        return [one for one in known if grant.allows_office(one)]

    assert allowed() == known == allowed("*")
    assert allowed("kitchen") == ["kitchen"]
    assert allowed("kitchen", "team-*") == ["kitchen", "team-a", "team-a@there.test"]
    assert allowed("*@there.test") == ["team-a@there.test", "kitchen@there.test"]
    assert allowed("kit?hen", "[k]itchen", "") == []


def test_a_grant_is_immutable() -> None:
    """No code can extend its permissions."""
    grant = Grant("id", "alice", BOTH)
    with pytest.raises(dataclasses.FrozenInstanceError):
        grant.offices = ("*",)  # type: ignore[misc]  # the assignment must fail


@pytest.mark.parametrize("owner", ["a", "Alice, laptop", "ä" * 127, "x" * 255])
def test_valid_owners(owner: str) -> None:
    """An owner is free text."""
    assert owner_error(owner) is None


@pytest.mark.parametrize("owner", ["", " ", " a", "a ", "x" * 256, "ä" * 128, "a\nb", "a\0", "\ud800", "\x1b[31m"])
def test_invalid_owners(owner: str) -> None:
    """It appears in the audit log, one line per entry."""
    assert owner_error(owner) is not None


def test_a_token_needs_a_role() -> None:
    """A known one."""
    assert roles_error(["agent"]) is None
    assert roles_error(["computer", "agent"]) is None
    assert "at least one role" in (roles_error([]) or "")
    assert "Unknown role admin" in (roles_error(["agent", "admin"]) or "")
    assert roles_error(["Agent"]) is not None


def test_a_token_names_valid_offices() -> None:
    """Up to the maximum number."""
    assert offices_error([]) is None
    assert offices_error(["kitchen", "team-*", "*@there.test"] + ["a"] * (MAX_OFFICES - 3)) is None
    assert offices_error(["a"] * (MAX_OFFICES + 1)) is not None
    for office in ("", " ", "a\nb", "a\0", "\ud800", "x" * 256):
        assert offices_error(["kitchen", office]) is not None
