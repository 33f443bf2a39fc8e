"""Secrets are removed from log entries."""

from typing import Any

import pytest

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, make_token
from bridge.connectors.offices import tokens as office_tokens
from bridge.text.redaction import HIDDEN, redact, redact_text

SEED = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"


@pytest.mark.parametrize(
    "text",
    [
        "connecting to postgresql://palaver:hunter2secret@db.example.org/palaver",
        "Authorization: Bearer hunter2secret",
        "GET /x?access_token=hunter2secret&y=1",
        '{"password": "hunter2secret"}',
        "as_token: hunter2secret",
        "client_secret='hunter2secret'",
        "x-api-key: hunter2secret",
        "API_KEY=hunter2secret",
        f"{'a.' * 50}://palaver:hunter2secret@db",
        "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.hunter2secret",
        "clone with ghp_hunter2secrethunter2secret",
        "asks with sk-proj-hunter2secrethunter2",
    ],
)
def test_known_patterns_are_hidden_inside_longer_texts(text: str) -> None:
    """In a composed message, an exception's text or a URL."""
    assert "hunter2secret" not in redact_text(text)
    assert HIDDEN in redact_text(text)


def test_key_material_is_hidden() -> None:
    """A line of a signing key file, and a PEM private key."""
    assert SEED not in redact_text(f"read ed25519 a_1 {SEED}")
    pem = "-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----"
    assert "c2VjcmV0" not in redact_text(f"loaded {pem} done")


def test_the_id_of_an_agents_token_is_kept() -> None:
    """It identifies the token and is not secret."""
    token = make_token(b"\1" * ID_BYTES, b"\2" * SECRET_BYTES)
    assert redact_text(f"refused {token.text}.") == f"refused plv_{token.token_id}{HIDDEN}."


def test_the_id_of_an_office_token_is_kept() -> None:
    """Clients send the token in an object or in a header of any name."""
    token = office_tokens.make_token(b"\1" * ID_BYTES, b"\2" * SECRET_BYTES)
    assert redact_text(f"refused {token.text}.") == f"refused plo_{token.token_id}{HIDDEN}."
    for text in (f"x-api-key: {token.text}", f"{{'auth': '{token.text}'}}", f"ab,{token.text},{token.text}"):
        assert token.text[14:] not in redact_text(text)
    event = redact(None, "info", {"event": "x", "auth": {"key": token.text}, "said": [token.text]})
    assert token.text[14:] not in str(event)


@pytest.mark.parametrize(
    "name", ["password", "as_token", "Authorization", "client_secret", "signing_key", "Set-Cookie"]
)
def test_values_with_known_names_are_hidden(name: str) -> None:
    """At any depth."""
    event: dict[str, Any] = {"event": "x", name: "abc", "inner": [{name: "abc"}]}
    assert redact(None, "info", event) == {"event": "x", name: HIDDEN, "inner": [{name: HIDDEN}]}


def test_other_values_are_kept() -> None:
    """Counts, flags, ids and addresses are not secret."""
    event = {"event": "Started on https://localhost:7676.", "tokens": 3, "key_id": "ed25519:a_1", "token": None}
    assert redact(None, "info", dict(event)) == event


@pytest.mark.parametrize(
    "part",
    [
        "a.",
        "a://",
        "a://b:",
        "token ",
        "token =",
        "bearer ",
        "eyJaaaaaaaa.",
        "-----BEGIN ",
        "ed25519 a",
        "sk-a",
        "'",
        " ",
    ],
)
def test_a_long_text_is_searched_in_linear_time(part: str) -> None:
    """With quadratic patterns these texts would take hours."""
    assert redact_text(part * (1_000_000 // len(part))) is not None
