"""The registration for double puppets."""

from dataclasses import replace
from typing import Any

import pytest

from appservice.people.double_puppets import SOURCE_KEY, has_source_mark, with_source_mark
from appservice.registration.check import NoResponse, Response
from appservice.registration.double_puppets import PuppetRegistrationSettings, differences, make, whoami_problem
from appservice.registration.registration import Registration, Reserved, Secrets, document, read

SECRETS = Secrets("a" * 43, "h" * 43, "palaver-0123456789abcdef")
WANTED = PuppetRegistrationSettings("palaver-double-puppet", "their.server")
MADE = make(WANTED, SECRETS)


def test_reserves_and_receives_nothing() -> None:
    """All users, not exclusive, and no url."""
    written = document(MADE)
    assert written["url"] is None
    assert written["namespaces"] == {
        "users": [{"exclusive": False, "regex": "^@.*:their\\.server$"}],
        "aliases": [],
        "rooms": [],
    }
    assert (written["rate_limited"], written["receive_ephemeral"], written["protocols"]) == (False, False, [])
    assert read(written) == MADE


def test_differences_from_the_configuration() -> None:
    """One sentence each."""
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
def test_whoami_problems(heard: Any, words: str) -> None:
    """Without the token."""
    sentence = whoami_problem(heard, MADE, "/etc/p.yaml", "their.server") or ""
    assert words in sentence
    assert SECRETS.as_token not in sentence


def test_sender_owns_the_token() -> None:
    """There is no problem then."""
    answer = Response(200, {"user_id": f"@{SECRETS.sender_localpart}:their.server"})
    assert whoami_problem(answer, MADE, "/etc/p.yaml", "their.server") is None


def test_source_mark() -> None:
    """As other bridges mark events, with this software's name; other marks do not count."""
    assert with_source_mark({"body": "x"}) == {"body": "x", SOURCE_KEY: "palaver"}
    assert has_source_mark(with_source_mark({}))
    assert not has_source_mark({SOURCE_KEY: "mautrix-whatsapp"})
    assert not has_source_mark({})
