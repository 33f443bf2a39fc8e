"""The registration by which a homeserver lets a node speak as people."""

from dataclasses import replace
from typing import Any

import pytest

from appservice.people.double_puppets import (
    SOURCE_KEY,
    PuppetRegistrationSettings,
    differences,
    has_source_mark,
    make,
    whoami_problem,
    with_source_mark,
)
from appservice.registration.check import NoResponse, Response
from appservice.registration.registration import Registration, Reserved, Secrets, document, read

SECRETS = Secrets("a" * 43, "h" * 43, "palaver-0123456789abcdef")
WANTED = PuppetRegistrationSettings("palaver-double-puppet", "their.server")
MADE = make(WANTED, SECRETS)


def test_it_reserves_nothing_and_is_sent_nothing() -> None:
    """All users of the homeserver, none of them for this node alone; and no url."""
    written = document(MADE)
    assert written["url"] is None
    assert written["namespaces"] == {
        "users": [{"exclusive": False, "regex": "^@.*:their\\.server$"}],
        "aliases": [],
        "rooms": [],
    }
    assert (written["rate_limited"], written["receive_ephemeral"], written["protocols"]) == (False, False, [])
    assert read(written) == MADE


def test_it_is_as_the_configuration_wants_it() -> None:
    """Whatever differs is said, one sentence each."""
    assert differences(MADE, WANTED) == ()
    other: list[tuple[Registration, str]] = [
        (replace(MADE, id="other"), "registers “other”"),
        (replace(MADE, url="http://127.0.0.1:1"), "has to be null"),
        (replace(MADE, users=(Reserved(MADE.users[0].regex),)), "not exclusive"),
        (replace(MADE, aliases=(Reserved("#.*"),)), "reserve nothing"),
        (replace(MADE, rate_limited=True), "rate_limited"),
    ]
    for registration, words in other:
        (sentence,) = differences(registration, WANTED)
        assert words in sentence
    assert len(differences(MADE, PuppetRegistrationSettings("x", "other.server"))) == 2


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (NoResponse("refused"), "did not respond"),
        (Response(401, {"errcode": "M_UNKNOWN_TOKEN"}), "add /etc/p.yaml to its"),
        (Response(500), "HTTP status 500"),
        (Response(200, {"user_id": "@somebody:their.server"}), "reads another file than /etc/p.yaml"),
    ],
)
def test_each_mistake_has_its_sentence(heard: Any, words: str) -> None:
    """In which there is no token."""
    sentence = whoami_problem(heard, MADE, "/etc/p.yaml", "their.server") or ""
    assert words in sentence
    assert SECRETS.as_token not in sentence


def test_the_homeserver_knows_the_token_by_its_sender() -> None:
    """Nothing is wrong then."""
    answer = Response(200, {"user_id": f"@{SECRETS.sender_localpart}:their.server"})
    assert whoami_problem(answer, MADE, "/etc/p.yaml", "their.server") is None


def test_what_is_said_in_a_persons_name_is_marked() -> None:
    """As other bridges mark it, with our name: theirs is no mark of ours."""
    assert with_source_mark({"body": "x"}) == {"body": "x", SOURCE_KEY: "palaver"}
    assert has_source_mark(with_source_mark({}))
    assert not has_source_mark({SOURCE_KEY: "mautrix-whatsapp"})
    assert not has_source_mark({})
