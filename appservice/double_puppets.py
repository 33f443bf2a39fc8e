"""A second registration, by which a homeserver lets this node speak as the people on it.

The first one is for agents and reserves their names. This one reserves nothing and is sent nothing: it is a
token that may say `user_id` of any user of the homeserver, and whoever has it is all of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from appservice.homeserver_check import Heard, NoAnswer
from appservice.registration import Registration, Reserved, Secrets

SOURCE_KEY: Final = "fi.mau.double_puppet_source"
SOURCE: Final = "palaver"
"""By which bridges know what they have said themselves in a person's name, and take it for nothing new."""


@dataclass(frozen=True, slots=True)
class Login:
    """That a person has given a token of his own. Times are milliseconds since 1970; `refused_at` is since
    when the homeserver does not take it any more."""

    login_id: str
    person: str
    made_at: int
    refused_at: int | None = None


@dataclass(frozen=True, slots=True)
class WantedPuppets:
    """What the configuration says: under which id, and what the homeserver is called."""

    id: str
    domain: str


def make(wanted: WantedPuppets, secrets: Secrets) -> Registration:
    """As the configuration wants it."""
    return Registration(
        wanted.id,
        # "url: […] Optionally set to null if no traffic is required."
        None,
        secrets,
        (Reserved(f"^@.*:{re.escape(wanted.domain)}$", exclusive=False),),
        (),
        receive_ephemeral=False,
        rate_limited=False,
        protocols=(),
    )


def differences(registration: Registration, wanted: WantedPuppets) -> tuple[str, ...]:
    """How the file and the configuration part: sentences that name both."""
    given = make(wanted, registration.secrets)
    found = []
    if registration.id != given.id:
        found.append(
            f"The file for double puppets registers “{registration.id}”, and the configuration says"
            f" “{given.id}”."
        )
    if registration.url is not None:
        found.append(
            f"The file for double puppets sends the homeserver to {registration.url}: its url has to be"
            " null, or everything would come twice."
        )
    if registration.users != given.users:
        found.append(
            f"The file for double puppets has other users than {given.users[0].regex}, which is not"
            " exclusive."
        )
    if registration.aliases or registration.rooms:
        found.append("The file for double puppets reserves aliases or rooms, and has to reserve nothing.")
    if registration.rate_limited:
        found.append("The file for double puppets has no `rate_limited: false`.")
    return tuple(found)


def marked(content: Mapping[str, Any]) -> dict[str, Any]:
    """What is said in a person's name."""
    return {**content, SOURCE_KEY: SOURCE}


def is_marked(content: Mapping[str, Any]) -> bool:
    """Whether a Palaver has said it in a person's name."""
    return content.get(SOURCE_KEY) == SOURCE


def wrong_whoami(heard: Heard, registration: Registration, path: str, domain: str) -> str | None:
    """A sentence for the operator; None if the homeserver knows the token for what it is. `path` is the
    file."""
    if isinstance(heard, NoAnswer):
        return f"The homeserver did not answer whose token that for double puppets is ({heard.reason})."
    if heard.status in (401, 403):
        return (
            f"The homeserver does not know the token for double puppets ({heard.errcode}): name {path} in its"
            " configuration too and start it again, or set double_puppet.enabled = false."
        )
    user = heard.body.get("user_id")
    if heard.status != 200 or not isinstance(user, str):
        return f"The homeserver did not say whose token that for double puppets is ({heard.errcode})."
    if user != f"@{registration.secrets.sender_localpart}:{domain}":
        return (
            "The homeserver knows the token for double puppets as another one's: it reads another file than"
            f" {path}."
        )
    return None
