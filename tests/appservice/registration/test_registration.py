"""The registration."""

from dataclasses import replace
from typing import Any

import pytest

from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import (
    AS_PLACEHOLDER,
    Registration,
    RegistrationSettings,
    Reserved,
    Secrets,
    differences,
    document,
    example,
    make,
    make_with_existing_tokens,
    read,
)

SECRETS = Secrets("a" * 43, "h" * 43, "palaver-0123456789abcdef")
WANTED = RegistrationSettings(
    "palaver", "http://127.0.0.1:7678", Namespaces("their.server", "kitchen.local", "_agent_")
)


def registered() -> dict[str, Any]:
    return document(make(WANTED, SECRETS))


def test_round_trip() -> None:
    """And it has no differences from the configuration."""
    found = read(registered())
    assert found == make(WANTED, SECRETS)
    assert isinstance(found, Registration)
    assert differences(found, WANTED) == ()


def test_document() -> None:
    """Exclusive namespaces, ephemeral events under both names, no rate limit."""
    told = registered()
    assert told["receive_ephemeral"] is told["de.sorunome.msc2409.push_ephemeral"] is True
    assert told["rate_limited"] is False
    assert told["protocols"] == ["agents"]
    assert told["namespaces"]["users"] == [{"exclusive": True, "regex": r"^@_agent_.+:their\.server$"}]
    assert [one["exclusive"] for one in told["namespaces"]["aliases"]] == [True] * 4
    assert told["namespaces"]["rooms"] == []


def test_remade_registration_keeps_its_tokens() -> None:
    """A homeserver with the old file still knows the node."""
    moved = replace(WANTED, url="http://10.0.0.1:7678")
    again = make_with_existing_tokens(moved, make(WANTED, SECRETS))
    assert again == make(moved, SECRETS)


def test_example_is_refused() -> None:
    """Only for its tokens."""
    wrong = read(document(example()))
    assert isinstance(wrong, tuple)
    assert [sentence.split()[0] for sentence in wrong] == ["`as_token`", "`hs_token`"]
    assert all("placeholder" in sentence for sentence in wrong)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"id": None}, "`id`"),
        ({"id": "a/b"}, "`id`"),
        ({"url": "their.server"}, "`url`"),
        ({"url": "http://user:secret@host"}, "`url`"),
        ({"url": 7}, "`url`"),
        ({"as_token": "short"}, "`as_token`"),
        ({"as_token": "a b" * 20}, "`as_token`"),
        ({"as_token": AS_PLACEHOLDER}, "placeholder"),
        ({"as_token": "h" * 43}, "the same"),
        ({"hs_token": ["h" * 43]}, "`hs_token`"),
        ({"sender_localpart": "a/b"}, "`sender_localpart`"),
        ({"sender_localpart": ""}, "`sender_localpart`"),
        ({"namespaces": []}, "`namespaces`"),
        ({"namespaces": {"users": {}}}, "`namespaces.users`"),
        ({"namespaces": {"users": [{"regex": "a"}]}}, "`namespaces.users`"),
        ({"namespaces": {"aliases": [{"regex": 1, "exclusive": True}]}}, "`namespaces.aliases`"),
        ({"protocols": "agents"}, "`protocols`"),
        ({"rate_limited": "no"}, "`rate_limited`"),
    ],
)
def test_problems_name_the_field(change: dict[str, Any], name: str) -> None:
    """And reveal no secret."""
    (wrong,) = read({**registered(), **change})
    assert name in wrong
    assert "aaaa" not in wrong
    assert "hhhh" not in wrong
    assert "secret@" not in wrong


def test_all_problems_are_returned() -> None:
    """So that the operator restarts the homeserver only once."""
    assert len(read({})) == 6  # type: ignore[arg-type]  # sentences, not a registration
    assert read(None) == read([]) == ("It is not a registration: a registration is a mapping.",)


def test_null_url() -> None:
    """`url` is required and may be null."""
    assert isinstance(read({**registered(), "url": None}), Registration)
    without = {name: value for name, value in registered().items() if name != "url"}
    assert isinstance(read(without), tuple)


def test_proposal_names_are_read() -> None:
    """A file with only the name of the proposal receives ephemeral events too."""
    older = {name: value for name, value in registered().items() if name != "receive_ephemeral"}
    found = read(older)
    assert isinstance(found, Registration)
    assert found.receive_ephemeral


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ({"id": "other"}, "“other”"),
        ({"url": None}, "the url null"),
        ({"url": "http://10.0.0.1:7678"}, "10.0.0.1"),
        ({"users": ()}, r"does not reserve the users ^@_agent_.+:their\.server$"),
        ({"users": (Reserved(r"^@_agent_.+:their\.server$"), Reserved("@.*"))}, "reserves the users @.*"),
        ({"rooms": (Reserved("!.*"),)}, "room ids"),
        ({"secrets": replace(SECRETS, sender_localpart="_agent_node")}, "as ghosts do"),
        ({"receive_ephemeral": False}, "receive_ephemeral"),
        ({"rate_limited": True}, "rate_limited"),
        ({"protocols": ()}, "protocols"),
    ],
)
def test_differences(file: dict[str, Any], part: str) -> None:
    """One sentence each, with both values."""
    (found,) = differences(replace(make(WANTED, SECRETS), **file), WANTED)
    assert part in found


def test_registration_without_offices() -> None:
    """It is only a problem if offices are enabled. Writing it again adds them and keeps the tokens."""
    new = make(WANTED, SECRETS)
    old = replace(new, aliases=new.aliases[:-1])
    assert "office" in new.aliases[-1].regex
    assert differences(old, WANTED) == ()
    with_offices = replace(WANTED, has_offices=True)
    (missing,) = differences(old, with_offices)
    assert r"aliases of offices, ^#office-.+:their\.server$, but offices are enabled" in missing
    assert "`palaver registration`, which keeps its tokens" in missing
    assert differences(make_with_existing_tokens(with_offices, old), with_offices) == ()
    assert make_with_existing_tokens(with_offices, old).secrets == SECRETS


def test_non_exclusive_namespace() -> None:
    """Two sentences: the missing one, and the superfluous one."""
    users = (Reserved(r"^@_agent_.+:their\.server$", exclusive=False),)
    assert len(differences(replace(make(WANTED, SECRETS), users=users), WANTED)) == 2


def test_tokens_are_not_in_the_repr() -> None:
    """Logging a registration reveals none."""
    shown = repr(make(WANTED, SECRETS))
    assert "aaa" not in shown
    assert "hhh" not in shown
