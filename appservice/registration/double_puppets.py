"""The second registration, for sending as people of the homeserver.

The first registration is for agents and reserves their names. The second one reserves nothing and receives
nothing: its token may act as any user of the homeserver, so its holder can act as all of them.
"""

import re
from dataclasses import dataclass

from appservice.registration.check import NoResponse, RequestResult
from appservice.registration.registration import Registration, Reserved, Secrets


@dataclass(frozen=True, slots=True)
class PuppetRegistrationSettings:
    """The configured registration id and the homeserver's server name."""

    id: str
    domain: str


def make(wanted: PuppetRegistrationSettings, secrets: Secrets) -> Registration:
    """Return the registration that the configuration describes."""
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


def differences(registration: Registration, wanted: PuppetRegistrationSettings) -> tuple[str, ...]:
    """Sentences on each difference between the file and the configuration."""
    configured = make(wanted, registration.secrets)
    found = []
    if registration.id != configured.id:
        found.append(
            f"The file for double puppets registers “{registration.id}”, but the configuration says “{configured.id}”."
        )
    if registration.url is not None:
        found.append(
            f"The file for double puppets has the url {registration.url}: it has to be"
            " null, or the homeserver would push everything twice."
        )
    if registration.users != configured.users:
        found.append(
            f"The file for double puppets has other users than {configured.users[0].regex}, which is not exclusive."
        )
    if registration.aliases or registration.rooms:
        found.append("The file for double puppets reserves aliases or rooms, but has to reserve nothing.")
    if registration.rate_limited:
        found.append("The file for double puppets lacks `rate_limited: false`.")
    return tuple(found)


def whoami_problem(result: RequestResult, registration: Registration, path: str, domain: str) -> str | None:
    """A sentence for the operator; None if the homeserver knows the token as that of this registration.
    `path` is the file."""
    if isinstance(result, NoResponse):
        return f"The homeserver did not respond to the check of the token for double puppets ({result.reason})."
    if result.status in (401, 403):
        return (
            f"The homeserver does not know the token for double puppets ({result.errcode}): add {path} to its"
            " configuration and restart it, or set double_puppet.enabled = false."
        )
    user = result.body.get("user_id")
    if result.status != 200 or not isinstance(user, str):
        return f"The homeserver did not name the owner of the token for double puppets ({result.errcode})."
    if user != f"@{registration.secrets.sender_localpart}:{domain}":
        return (
            f"The homeserver knows the token for double puppets as another user's: it reads another file than {path}."
        )
    return None
