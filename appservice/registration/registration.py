"""The registration: the file that introduces this node to the homeserver.

Application service API, "Registration". This module handles it as data; `bridge/node/registration.py` reads
and writes YAML.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from appservice.registration.namespaces import SENDER, Namespaces

PROTOCOL: Final = "agents"
"""The protocol that clients can look up under `/thirdparty`."""

MIN_TOKEN_LENGTH: Final = 32
AS_PLACEHOLDER: Final = "as-token-that-palaver-registration-replaces"
HS_PLACEHOLDER: Final = "hs-token-that-palaver-registration-replaces"
SENDER_PLACEHOLDER: Final = f"{SENDER}0000000000000000"
_PLACEHOLDERS: Final = frozenset({AS_PLACEHOLDER, HS_PLACEHOLDER})
# These characters need no quoting in a header or query.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)
_SENDER: Final = re.compile(r"[a-z0-9._-]+", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,255}", re.ASCII)

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Secrets:
    """The tokens and the sender's name, generated once. The homeserver creates the sender's account."""

    as_token: str = field(repr=False)
    hs_token: str = field(repr=False)
    sender_localpart: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """A regex of reserved names, and whether the reservation is exclusive."""

    regex: str
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class Registration:
    """`url` is None if the homeserver is to push nothing."""

    id: str
    url: str | None
    secrets: Secrets
    users: tuple[Reserved, ...]
    aliases: tuple[Reserved, ...]
    rooms: tuple[Reserved, ...] = ()
    receive_ephemeral: bool = True
    rate_limited: bool = False
    protocols: tuple[str, ...] = (PROTOCOL,)


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """The configured registration: its id, the url at which the homeserver reaches this node, the namespaces,
    and whether offices are enabled. Office aliases are reserved in any case, which does no harm without
    offices."""

    id: str
    url: str
    namespaces: Namespaces
    has_offices: bool = False


def make(wanted: RegistrationSettings, secrets: Secrets) -> Registration:
    """Return the registration that the settings describe."""
    return Registration(
        wanted.id,
        wanted.url,
        secrets,
        (Reserved(wanted.namespaces.users_regex),),
        tuple(Reserved(regex) for regex in wanted.namespaces.aliases_regexes),
    )


def make_with_existing_tokens(wanted: RegistrationSettings, existing: Registration) -> Registration:
    """Reuse the tokens, so that a homeserver that has not read the new file still knows this node."""
    return make(wanted, existing.secrets)


def document(registration: Registration) -> dict[str, Any]:
    """The registration as the homeserver reads it."""
    return {
        "id": registration.id,
        # "url: Required. The URL for the application service. […] Optionally set to null if no traffic is
        # required."
        "url": registration.url,
        "as_token": registration.secrets.as_token,
        "hs_token": registration.secrets.hs_token,
        "sender_localpart": registration.secrets.sender_localpart,
        "rate_limited": registration.rate_limited,
        "namespaces": {
            "users": _reserved(registration.users),
            "aliases": _reserved(registration.aliases),
            "rooms": _reserved(registration.rooms),
        },
        "protocols": list(registration.protocols),
        # Since v1.13; older versions of Synapse and Dendrite know the names of the proposal. Synapse sends
        # data under both names, and this node reads one of them.
        "receive_ephemeral": registration.receive_ephemeral,
        "de.sorunome.msc2409.push_ephemeral": registration.receive_ephemeral,
    }


def _reserved(reserved: Sequence[Reserved]) -> list[dict[str, Any]]:
    return [{"exclusive": one.exclusive, "regex": one.regex} for one in reserved]


def read(value: object) -> Registration | tuple[str, ...]:
    """Return the registration, or sentences on everything that is invalid. They contain no secret."""
    if not isinstance(value, Mapping):
        return ("It is not a registration: a registration is a mapping.",)
    problems: list[str] = []
    texts = {name: _text(value, name, problems) for name in ("id", "as_token", "hs_token", "sender_localpart")}
    url = value.get("url")
    if "url" not in value or not (url is None or (isinstance(url, str) and _is_url(url))):
        problems.append(
            "`url` has to be an http:// or https:// URL at which the homeserver reaches this node, or null."
        )
    namespaces = value.get("namespaces")
    if not isinstance(namespaces, Mapping):
        problems.append("`namespaces` has to be a mapping with users, aliases and rooms.")
        namespaces = {}
    users, aliases, rooms = (_patterns(namespaces, name, problems) for name in ("users", "aliases", "rooms"))
    protocols = value.get("protocols", [])
    if not isinstance(protocols, list) or not all(isinstance(name, str) for name in protocols):
        problems.append("`protocols` has to be a list of names.")
        protocols = []
    ephemeral = value.get("receive_ephemeral", value.get("de.sorunome.msc2409.push_ephemeral", False))
    limited = value.get("rate_limited", True)
    if not isinstance(ephemeral, bool) or not isinstance(limited, bool):
        problems.append("`receive_ephemeral` and `rate_limited` have to be true or false.")
    secrets = Secrets(texts["as_token"], texts["hs_token"], texts["sender_localpart"])
    problems += _secret_problems(secrets)
    id_error = id_problem(texts["id"]) if texts["id"] else None
    if id_error is not None:
        problems.append(f"`id` {id_error}.")
    if problems:
        return tuple(problems)
    return Registration(texts["id"], url, secrets, users, aliases, rooms, ephemeral, limited, tuple(protocols))


def id_problem(text: str) -> str | None:
    """Why this cannot be a registration id; a predicate that follows the field's name."""
    return None if _ID.fullmatch(text) else "has at most 255 letters, digits, '.', '_', '~' and '-'"


def _text(value: Document, name: str, problems: list[str]) -> str:
    text = value.get(name)
    if isinstance(text, str) and text:
        return text
    problems.append(f"`{name}` is missing.")
    return ""


def _patterns(namespaces: Document, name: str, problems: list[str]) -> tuple[Reserved, ...]:
    listed = namespaces.get(name, [])
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(
        isinstance(one, Mapping) and isinstance(one.get("regex"), str) and isinstance(one.get("exclusive"), bool)
        for one in listed
    ):
        problems.append(f"`namespaces.{name}` has to be a list of mappings with `exclusive` and `regex`.")
        return ()
    return tuple(Reserved(one["regex"], one["exclusive"]) for one in listed)


def _secret_problems(secrets: Secrets) -> list[str]:
    problems = []
    for name, token in (("as_token", secrets.as_token), ("hs_token", secrets.hs_token)):
        if token in _PLACEHOLDERS:
            problems.append(f"`{name}` is the placeholder of the example: write the file with `palaver registration`.")
        elif token and (len(token) < MIN_TOKEN_LENGTH or _TOKEN.fullmatch(token) is None):
            problems.append(f"`{name}` has to consist of {MIN_TOKEN_LENGTH} or more letters, digits, ._~-.")
    if secrets.as_token and secrets.as_token == secrets.hs_token:
        problems.append("`as_token` and `hs_token` are the same, so that a holder of one has both.")
    if secrets.sender_localpart and _SENDER.fullmatch(secrets.sender_localpart) is None:
        problems.append("`sender_localpart` may only contain a-z, 0-9, '.', '_' and '-'.")
    return problems


def _is_url(url: str) -> bool:
    return re.fullmatch(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", url) is not None


def reserves_offices(registration: Registration, wanted: RegistrationSettings) -> bool:
    """False for registrations from before offices existed."""
    return Reserved(wanted.namespaces.offices_regex) in registration.aliases


def differences(registration: Registration, wanted: RegistrationSettings) -> tuple[str, ...]:
    """Sentences on each difference between the file and the configuration."""
    configured = make(wanted, registration.secrets)
    found = []
    if registration.id != configured.id:
        found.append(f"The file registers “{registration.id}”, but the configuration says “{configured.id}”.")
    if registration.url != configured.url:
        found.append(f"The file has the url {registration.url or 'null'}, but the configuration says {configured.url}.")
    offices = Reserved(wanted.namespaces.offices_regex)
    for what, in_file, in_configuration in (
        ("users", registration.users, configured.users),
        ("aliases", registration.aliases, configured.aliases),
    ):
        found += [
            f"The file does not reserve the {what} {one.regex}, which the configuration requires."
            for one in in_configuration
            if one not in in_file and one != offices
        ]
        found += [
            f"The file reserves the {what} {one.regex}, which are not in the configuration."
            for one in in_file
            if one not in in_configuration
        ]
    if wanted.has_offices and not reserves_offices(registration, wanted):
        found.append(
            f"The file does not reserve the aliases of offices, {offices.regex}, but offices are enabled:"
            " write it again with `palaver registration`, which keeps its tokens, copy it to the homeserver"
            " and restart the homeserver."
        )
    if registration.rooms:
        found.append("The file reserves room ids, which the homeserver assigns itself.")
    if wanted.namespaces.owns_user(f"@{registration.secrets.sender_localpart}:{wanted.namespaces.domain}"):
        found.append(
            f"`sender_localpart` begins with {wanted.namespaces.user_prefix}, as ghosts do: an agent"
            " could have the same user."
        )
    if not registration.receive_ephemeral:
        found.append("The file lacks `receive_ephemeral: true`: typing, receipts and presence would not arrive.")
    if registration.rate_limited:
        found.append("The file lacks `rate_limited: false`: agents would be rate-limited together.")
    if set(registration.protocols) != set(configured.protocols):
        found.append(f"The `protocols` of the file are not {', '.join(configured.protocols)}.")
    return tuple(found)


def example() -> Registration:
    """An example to show. Its tokens are refused."""
    namespaces = Namespaces("example.org", "agents.example.org", "_agent_")
    wanted = RegistrationSettings("palaver", "http://127.0.0.1:7678", namespaces)
    return make(wanted, Secrets(AS_PLACEHOLDER, HS_PLACEHOLDER, SENDER_PLACEHOLDER))
