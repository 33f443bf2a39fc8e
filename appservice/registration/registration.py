"""The registration: the file by which a homeserver knows us, and we it.

Application service API, "Registration". Here it is data; how it is written as YAML the centre knows.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from appservice.registration.namespaces import SENDER, Namespaces

PROTOCOL: Final = "agents"
"""What other clients may look up of us under `/thirdparty`."""

SHORTEST_TOKEN: Final = 32
AS_PLACEHOLDER: Final = "as-token-that-palaver-registration-replaces"
HS_PLACEHOLDER: Final = "hs-token-that-palaver-registration-replaces"
SENDER_PLACEHOLDER: Final = f"{SENDER}0000000000000000"
_PLACEHOLDERS: Final = frozenset({AS_PLACEHOLDER, HS_PLACEHOLDER})
# A header and a query hold it as it is.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)
_SENDER: Final = re.compile(r"[a-z0-9._-]+", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,255}", re.ASCII)

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Secrets:
    """What is drawn once and then kept: the sender too, whose account the homeserver makes."""

    as_token: str = field(repr=False)
    hs_token: str = field(repr=False)
    sender_localpart: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """A pattern of names, and whether nobody else may have one of them."""

    regex: str
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class Registration:
    """`url` is None where the homeserver is to send nothing."""

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
class Wanted:
    """What the configuration says: under which id, where the homeserver reaches us, what is ours, and whether
    there are offices. The aliases of those are reserved in any case; without offices nobody misses them."""

    id: str
    url: str
    namespaces: Namespaces
    has_offices: bool = False


def make(wanted: Wanted, secrets: Secrets) -> Registration:
    """As the configuration wants it."""
    return Registration(
        wanted.id,
        wanted.url,
        secrets,
        (Reserved(wanted.namespaces.users_regex),),
        tuple(Reserved(regex) for regex in wanted.namespaces.aliases_regexes),
    )


def made_again(wanted: Wanted, before: Registration) -> Registration:
    """With the tokens of the one before: a homeserver that has not read the new one goes on to know us."""
    return make(wanted, before.secrets)


def document(registration: Registration) -> dict[str, Any]:
    """As the homeserver reads it."""
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
        # Since v1.13; before, Synapse and Dendrite knew it under names of its proposal. Synapse sends under
        # both, and one is read.
        "receive_ephemeral": registration.receive_ephemeral,
        "de.sorunome.msc2409.push_ephemeral": registration.receive_ephemeral,
    }


def _reserved(reserved: Sequence[Reserved]) -> list[dict[str, Any]]:
    return [{"exclusive": one.exclusive, "regex": one.regex} for one in reserved]


def read(value: object) -> Registration | tuple[str, ...]:
    """A registration, or all that is wrong with it: sentences, in which there is no secret."""
    if not isinstance(value, Mapping):
        return ("It is no registration: that is a mapping of names to values.",)
    wrong: list[str] = []
    texts = {name: _text(value, name, wrong) for name in ("id", "as_token", "hs_token", "sender_localpart")}
    url = value.get("url")
    if "url" not in value or not (url is None or (isinstance(url, str) and _is_url(url))):
        wrong.append("`url` is where the homeserver reaches this node, http:// or https://, or null.")
    namespaces = value.get("namespaces")
    if not isinstance(namespaces, Mapping):
        wrong.append("`namespaces` is a mapping of users, aliases and rooms.")
        namespaces = {}
    users, aliases, rooms = (_patterns(namespaces, name, wrong) for name in ("users", "aliases", "rooms"))
    protocols = value.get("protocols", [])
    if not isinstance(protocols, list) or not all(isinstance(name, str) for name in protocols):
        wrong.append("`protocols` is a list of names.")
        protocols = []
    ephemeral = value.get("receive_ephemeral", value.get("de.sorunome.msc2409.push_ephemeral", False))
    limited = value.get("rate_limited", True)
    if not isinstance(ephemeral, bool) or not isinstance(limited, bool):
        wrong.append("`receive_ephemeral` and `rate_limited` are true or false.")
    secrets = Secrets(texts["as_token"], texts["hs_token"], texts["sender_localpart"])
    wrong += _wrong_secrets(secrets)
    wrong_name = wrong_id(texts["id"]) if texts["id"] else None
    if wrong_name is not None:
        wrong.append(f"`id` {wrong_name}.")
    if wrong:
        return tuple(wrong)
    return Registration(
        texts["id"], url, secrets, users, aliases, rooms, ephemeral, limited, tuple(protocols)
    )


def wrong_id(text: str) -> str | None:
    """Why no registration is called so."""
    return None if _ID.fullmatch(text) else "has at most 255 letters, digits, '.', '_', '~' and '-'"


def _text(value: Document, name: str, wrong: list[str]) -> str:
    text = value.get(name)
    if isinstance(text, str) and text:
        return text
    wrong.append(f"`{name}` is missing.")
    return ""


def _patterns(namespaces: Document, name: str, wrong: list[str]) -> tuple[Reserved, ...]:
    listed = namespaces.get(name, [])
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(
        isinstance(one, Mapping)
        and isinstance(one.get("regex"), str)
        and isinstance(one.get("exclusive"), bool)
        for one in listed
    ):
        wrong.append(f"`namespaces.{name}` is a list of mappings of `exclusive` and `regex`.")
        return ()
    return tuple(Reserved(one["regex"], one["exclusive"]) for one in listed)


def _wrong_secrets(secrets: Secrets) -> list[str]:
    wrong = []
    for name, token in (("as_token", secrets.as_token), ("hs_token", secrets.hs_token)):
        if token in _PLACEHOLDERS:
            wrong.append(
                f"`{name}` is the placeholder of the example: let `palaver registration` write the file."
            )
        elif token and (len(token) < SHORTEST_TOKEN or _TOKEN.fullmatch(token) is None):
            wrong.append(f"`{name}` is no token: those have {SHORTEST_TOKEN} or more letters, digits, ._~-.")
    if secrets.as_token and secrets.as_token == secrets.hs_token:
        wrong.append("`as_token` and `hs_token` are the same: whoever is shown one would have both.")
    if secrets.sender_localpart and _SENDER.fullmatch(secrets.sender_localpart) is None:
        wrong.append("`sender_localpart` has a-z, 0-9, '.', '_' and '-'.")
    return wrong


def _is_url(url: str) -> bool:
    return re.fullmatch(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", url) is not None


def reserves_offices(registration: Registration, wanted: Wanted) -> bool:
    """Those that were written before there were offices do not."""
    return Reserved(wanted.namespaces.offices_regex) in registration.aliases


def differences(registration: Registration, wanted: Wanted) -> tuple[str, ...]:
    """How the file and the configuration part: sentences that name both."""
    given = make(wanted, registration.secrets)
    found = []
    if registration.id != given.id:
        found.append(f"The file registers “{registration.id}”, and the configuration says “{given.id}”.")
    if registration.url != given.url:
        found.append(
            f"The file sends the homeserver to {registration.url or 'nowhere'}, and the configuration says"
            f" {given.url}."
        )
    offices = Reserved(wanted.namespaces.offices_regex)
    for what, there, here in (
        ("users", registration.users, given.users),
        ("aliases", registration.aliases, given.aliases),
    ):
        found += [
            f"The file does not reserve the {what} {one.regex}, which the configuration wants."
            for one in here
            if one not in there and one != offices
        ]
        found += [
            f"The file reserves the {what} {one.regex}, which are not ours."
            for one in there
            if one not in here
        ]
    if wanted.has_offices and not reserves_offices(registration, wanted):
        found.append(
            f"The file does not reserve the names of offices, {offices.regex}, and offices are enabled: write"
            " it anew with `palaver registration`, which keeps its tokens, let the homeserver read it and"
            " start that again."
        )
    if registration.rooms:
        found.append("The file reserves rooms by their ids, which the homeserver gives out itself.")
    if wanted.namespaces.owns_user(f"@{registration.secrets.sender_localpart}:{wanted.namespaces.domain}"):
        found.append(
            f"`sender_localpart` begins with {wanted.namespaces.user_prefix}, as ghosts do: an agent could be"
            " called so."
        )
    if not registration.receive_ephemeral:
        found.append(
            "The file has no `receive_ephemeral: true`: nobody's typing, reading or presence would come."
        )
    if registration.rate_limited:
        found.append("The file has no `rate_limited: false`: agents would wait for each other's messages.")
    if set(registration.protocols) != set(given.protocols):
        found.append(f"The file has other `protocols` than {', '.join(given.protocols)}.")
    return tuple(found)


def example() -> Registration:
    """For whoever wants to see one. Its tokens are refused."""
    namespaces = Namespaces("example.org", "agents.example.org", "_agent_")
    wanted = Wanted("palaver", "http://127.0.0.1:7678", namespaces)
    return make(wanted, Secrets(AS_PLACEHOLDER, HS_PLACEHOLDER, SENDER_PLACEHOLDER))
