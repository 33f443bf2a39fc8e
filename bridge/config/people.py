"""The configuration of what people see of agents, and of what they may do.

The configuration of a guest's interface for bridge managers, and of speaking as people.
"""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from appservice.people.double_puppets import WantedPuppets
from appservice.registration.registration import wrong_id
from bridge.config.appservice import AppService
from bridge.config.section import Section
from bridge.matrix.ghost import GhostNames
from bridge.people.permissions import DEFAULT, EVERYBODY, Level, Rights, wrong_rule
from bridge.people.settings import PeopleSettings

_PREFIX: Final = re.compile(r"\S{2,40}")


def _rules(rules: dict[str, Level]) -> dict[str, Level]:
    for key in rules:
        wrong = wrong_rule(key)
        if wrong is not None:
            raise ValueError(f'"{key[:80]}" {wrong}')
    return rules


def _names(names: list[str]) -> list[str]:
    for name in names:
        wrong = wrong_rule(name)
        if wrong is not None or name == EVERYBODY:
            raise ValueError(f'"{name[:80]}" is neither a user id nor a server name')
    return names


def _prefix(value: str) -> str:
    if _PREFIX.fullmatch(value) is None:
        raise ValueError("is no prefix: it has 2 to 40 characters and no blanks")
    return value


Permissions = Annotated[dict[str, Level], AfterValidator(_rules)]
"""A section of its own, `[permissions]`, whose keys are `*`, servers and users."""

DEFAULT_PERMISSIONS: Final = dict(DEFAULT)
PERMISSIONS_DESCRIPTION: Final = (
    "Who may do what with the agents of this node: none, look, work or administer. The key is a user id, a"
    " server name, or * for everybody; the most specific one decides."
)
PERMISSIONS_EXAMPLE: Final = {"*": "look", "example.org": "work", "@alice:example.org": "administer"}


class People(Section):
    """What people see of agents: a room for each namespace, #agents-default:server_name, in which every task
    is a thread."""

    enabled: bool = Field(default=True, description="Whether there are such rooms.")
    join_rule: Literal["public", "knock", "invite"] = Field(
        default="public",
        description="Who comes into them: everybody whom [permissions] lets look (`public`), who asks at the"
        " door (`knock`), or who asks @palaver:server_name for an invite (`invite`).",
    )
    listed: bool = Field(default=False, description="Whether other servers find them in the list of rooms.")
    room_version: Literal["10", "11", "12"] = Field(
        default="12", description="The version of rooms that are made."
    )
    show: Literal["all", "asked"] = Field(
        default="all",
        description="Which tasks are shown: `all`, or only what people have `asked` for.",
    )
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="!agents",
        description="How a command begins in a room; in a chat with @palaver:server_name it needs nothing.",
    )
    members: int = Field(
        default=200,
        ge=0,
        le=10_000,
        description="How many agents are in such a room from the beginning. Others come when they speak.",
    )
    sensitive: Annotated[list[str], AfterValidator(_names)] = Field(
        default=[],
        description="Users and servers that may use sensitive commands, if they have the permission too.",
        examples=[["@alice:example.org"]],
    )


def rights(people: People, permissions: dict[str, Level]) -> Rights:
    return Rights(permissions, frozenset(people.sensitive))


def people_settings(
    names: GhostNames,
    people: People,
    permissions: dict[str, Level],
    namespaces: tuple[str, ...] = ("default",),
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
    )


def _id(value: str) -> str:
    wrong = wrong_id(value)
    if wrong is not None:
        raise ValueError(wrong)
    return value


class Provisioning(Section):
    """The interface of a guest for programs that show people their bridges: /_matrix/provision/v3 on the port
    that the homeserver speaks to."""

    enabled: bool = Field(
        default=True,
        description="Whether there is one. Who asks shows an access token of the homeserver, which is"
        " asked about it.",
    )
    shared_secret: Path | None = Field(
        default=None,
        description="The file that holds a secret of 32 characters or more, and nothing else: a program that"
        " shows it asks as any user that it names. Left out: there is no such secret.",
        examples=["/etc/palaver/provisioning-secret"],
    )


class DoublePuppet(Section):
    """Whether a guest speaks as people on its homeserver, so that what is asked for in their name is their
    own message. Each can also give it a token of his own."""

    enabled: bool = Field(
        default=False,
        description="Whether it may speak as everybody there, by a second registration that `palaver"
        " registration --double-puppet` writes. Who has that file can do all that its users can.",
    )
    registration: Path = Field(
        default=Path("double-puppet.yaml"), description="The file of the second registration."
    )
    id: Annotated[str, AfterValidator(_id)] = Field(
        default="palaver-double-puppet", description="The id in it, of which the homeserver knows one."
    )
    tokens: bool = Field(default=True, description="Whether people may give the node a token of their own.")


def wanted_puppets(section: DoublePuppet, appservice: AppService) -> WantedPuppets:
    """What the second registration has to say, of a configuration that was checked."""
    assert appservice.domain is not None, "the configuration was checked"
    return WantedPuppets(section.id, appservice.domain)


def check_double_puppet(section: DoublePuppet, appservice: AppService) -> None:
    """What only the two together can be asked. Raises `ValueError`, as validators do."""
    if section.id == appservice.id:
        raise ValueError(
            f"[double_puppet] and [appservice] have one id, {section.id}: a homeserver knows each id once"
        )
    if section.registration == appservice.registration:
        raise ValueError("[double_puppet] and [appservice] name one file for their registrations")
