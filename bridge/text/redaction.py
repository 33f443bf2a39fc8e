"""Removes secrets from log entries: values with known names, and known patterns inside longer texts."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

HIDDEN = "[hidden]"
SECRET_NAME = re.compile(
    r"(password|passwd|secret|token|authorization|cookie|credential|api_?key|private_?key|signing_?key|seed)",
    re.IGNORECASE,
)
# Remote users choose the text that is searched, so each pattern begins with fixed letters and cannot
# backtrack.
SECRET_PATTERNS = (
    # postgresql://user:password@host
    (re.compile(r"(://[^\s/:@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),
    # Authorization: Bearer …, and the same word anywhere else
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=\-]{8,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # access_token=… in a URL, "password": "…" in a body
    (
        re.compile(r"((?:password|secret|token|api[_-]?key)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    # tokens of other services: JSON Web Tokens, GitHub tokens, API keys of model providers
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), HIDDEN),
    (re.compile(r"\b(gh[oprsu]_|github_pat_|sk-)\w[\w-]{19,}"), rf"\1{HIDDEN}"),
    # a token of an agent or an office; its first part is the public id
    (re.compile(r"(\bpl[vo]_[0-9A-Za-z]{10})[0-9A-Za-z]+"), rf"\1{HIDDEN}"),
    # a line of a signing key file
    (re.compile(r"\b(ed25519 \w+ )[A-Za-z0-9+/]{43}(?![A-Za-z0-9+/])"), rf"\1{HIDDEN}"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), HIDDEN),
)


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that hides secrets in the event."""
    for name, value in event.items():
        event[name] = HIDDEN if _is_secret(name, value) else redact_value(value)
    return event


def redact_value(value: Any) -> Any:
    match value:
        case str():
            return redact_text(value)
        case Mapping():
            return {key: HIDDEN if _is_secret(str(key), item) else redact_value(item) for key, item in value.items()}
        case list() | tuple():
            return [redact_value(item) for item in value]
        case _:
            return value


def redact_text(text: str) -> str:
    for pattern, replacement in SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _is_secret(name: str, value: Any) -> bool:
    # A number of tokens or a flag is not a secret.
    return SECRET_NAME.search(name) is not None and not isinstance(value, bool | int | float | None)
