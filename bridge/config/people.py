"""The configuration of agents' rooms, of people's permissions, of the provisioning API and of double
puppets."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from appservice.registration.double_puppets import PuppetRegistrationSettings
from appservice.registration.registration import id_problem
from bridge.config.appservice import AppService
from bridge.config.section import Section
from bridge.matrix.ghost import GhostNames
from bridge.people.permissions import DEFAULT, EVERYBODY, Level, Rights, rule_error
from bridge.people.settings import PeopleSettings
from federation.peers.limits import Rate

_PREFIX: Final = re.compile(r"\S{2,40}")


def _rules(rules: dict[str, Level]) -> dict[str, Level]:
    for key in rules:
        wrong = rule_error(key)
        if wrong is not None:
            raise ValueError(f'"{key[:80]}" {wrong}')
    return rules


def _names(names: list[str]) -> list[str]:
    for name in names:
        wrong = rule_error(name)
        if wrong is not None or name == EVERYBODY:
            raise ValueError(f'"{name[:80]}" is not a user id or a server name')
    return names


def _prefix(value: str) -> str:
    if _PREFIX.fullmatch(value) is None:
        raise ValueError("is not a prefix: it has 2 to 40 characters and no blanks")
    return value


Permissions = Annotated[dict[str, Level], AfterValidator(_rules)]
"""The section `[permissions]`, whose keys are `*`, server names and user ids."""

DEFAULT_PERMISSIONS: Final = dict(DEFAULT)
PERMISSIONS_DESCRIPTION: Final = (
    "Permissions of people for the agents of this node: none, look, work or administer. A key is a user id, a"
    " server name, or * for everybody. The most specific key applies."
)
PERMISSIONS_EXAMPLE: Final = {"*": "look", "example.org": "work", "@alice:example.org": "administer"}


class People(Section):
    """Rooms in which people work with agents: one for each namespace, #agents-default:server_name. Every task
    is a thread there."""

    enabled: bool = Field(default=True, description="Whether the node creates these rooms.")
    join_rule: Literal["public", "knock", "invite"] = Field(
        default="public",
        description="How people with the permission `look` join the rooms: they just join (`public`), they"
        " knock (`knock`), or they ask @palaver:server_name for an invite (`invite`).",
    )
    listed: bool = Field(default=False, description="Whether the rooms appear in the public room list of this node.")
    room_version: Literal["10", "11", "12"] = Field(default="12", description="The room version of new rooms.")
    show: Literal["all", "asked"] = Field(
        default="all", description="Which tasks are shown: `all`, or only those that people have `asked` for."
    )
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="!agents",
        description="The prefix of commands in rooms. A direct chat with @palaver:server_name needs none.",
    )
    members: int = Field(
        default=200,
        ge=0,
        le=10_000,
        description="Maximum number of agents that join a room when it is created. Other agents join when"
        " they send their first message.",
    )
    requests_per_second: float = Field(
        default=2.0, gt=0, le=1_000, description="Maximum number of requests and commands per second of one person."
    )
    requests_at_once: int = Field(
        default=30,
        ge=1,
        le=10_000,
        description="Maximum number of requests and commands that one person can send at once after a pause.",
    )
    sensitive: Annotated[list[str], AfterValidator(_names)] = Field(
        default=[],
        description="Users and servers that may use sensitive commands. They also need the permission for the command.",
        examples=[["@alice:example.org"]],
    )


def rights(people: People, permissions: dict[str, Level]) -> Rights:
    return Rights(permissions, frozenset(people.sensitive))


def people_settings(
    names: GhostNames, people: People, permissions: dict[str, Level], namespaces: tuple[str, ...] = ("default",)
) -> PeopleSettings:
    return PeopleSettings(
        names,
        namespaces,
        rights(people, permissions),
        people.join_rule,
        people.listed,
        people.room_version,
        people.show,
        people.prefix,
        people.members,
        Rate(people.requests_per_second, people.requests_at_once),
    )


def _id(value: str) -> str:
    wrong = id_problem(value)
    if wrong is not None:
        raise ValueError(wrong)
    return value


class Provisioning(Section):
    """The provisioning API for bridge managers, available if this node is an application service:
    /_matrix/provision/v3 on the port of [appservice]."""

    enabled: bool = Field(
        default=True,
        description="Whether to serve the API. Clients authenticate with an access token of the homeserver,"
        " which the node verifies there.",
    )
    shared_secret: Path | None = Field(
        default=None,
        description="A file that contains only a secret of at least 32 characters. A program that sends this"
        " secret can act as any user that it names. Default: no shared secret.",
        examples=["/etc/palaver/provisioning-secret"],
    )


class DoublePuppet(Section):
    """Double puppets, available if this node is an application service: a request made in a person's name is
    sent as that person's own message."""

    enabled: bool = Field(
        default=False,
        description="Whether to act as any user of the homeserver, with a second registration that `palaver"
        " registration --double-puppet` writes. The tokens in that file give full access to all accounts of"
        " the homeserver.",
    )
    registration: Path = Field(
        default=Path("double-puppet.yaml"), description="The path of the second registration file."
    )
    id: Annotated[str, AfterValidator(_id)] = Field(
        default="palaver-double-puppet", description="The id in the second registration, unique on the homeserver."
    )
    tokens: bool = Field(
        default=True, description="Whether people may enable their double puppet with their own access token."
    )


def wanted_puppets(section: DoublePuppet, appservice: AppService) -> PuppetRegistrationSettings:
    """The content of the second registration. The configuration must have passed `check_double_puppet`."""
    assert appservice.domain is not None, "the configuration was checked"
    return PuppetRegistrationSettings(section.id, appservice.domain)


def check_double_puppet(section: DoublePuppet, appservice: AppService) -> None:
    """Check that the two registrations differ in id and file. Raises `ValueError`."""
    if section.id == appservice.id:
        raise ValueError(
            f"[double_puppet] and [appservice] have the same id, {section.id}: choose another id for one of them"
        )
    if section.registration == appservice.registration:
        raise ValueError(
            "[double_puppet] and [appservice] have the same registration file: choose another one for [double_puppet]"
        )
