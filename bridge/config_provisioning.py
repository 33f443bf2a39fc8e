"""The configuration of a guest's interface for bridge managers, and of speaking as people."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from appservice.double_puppets import WantedPuppets
from appservice.registration import wrong_id
from bridge.config_appservice import AppService
from bridge.config_section import Section


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
