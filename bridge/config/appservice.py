"""The section `[appservice]`: the configuration of a node that is attached to an existing homeserver as an
application service."""

import re
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from appservice.registration.namespaces import OFFICE, Namespaces, prefix_problem
from appservice.registration.registration import RegistrationSettings, id_problem
from bridge.config.section import Port, Section, ServerName

MatrixSideName = Literal["federation", "appservice"]
"""The type of `matrix_side`, at the top of the configuration."""

DEFAULT_MATRIX_SIDE: Final[MatrixSideName] = "federation"
MATRIX_SIDE_DESCRIPTION: Final = (
    "The Matrix backend of this node. `federation`: the node is a homeserver itself. `appservice`: the node"
    " is attached to the homeserver in [appservice] as an application service."
)

_URL: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", re.ASCII)


def _url(value: str) -> str:
    if _URL.fullmatch(value) is None:
        raise ValueError("must be http:// or https:// and a host, like http://127.0.0.1:8008")
    return value.rstrip("/")


def _prefix(value: str) -> str:
    wrong = prefix_problem(value)
    if wrong is not None:
        raise ValueError(f"is not a prefix for user names: {wrong[:1].lower()}{wrong[1:].rstrip('.')}")
    return value


def _id(value: str) -> str:
    wrong = id_problem(value)
    if wrong is not None:
        raise ValueError(wrong)
    return value


def _ip_address(value: str) -> str:
    try:
        ip_address(value)
    except ValueError:
        raise ValueError("must be an IP address to listen on, like 127.0.0.1 or ::") from None
    return value


Url = Annotated[str, AfterValidator(_url)]


class AppService(Section):
    """The homeserver to which this node is attached as an application service if `matrix_side` is
    "appservice"."""

    homeserver: Url | None = Field(
        default=None, description="The URL of the homeserver's client-server API.", examples=["http://127.0.0.1:8008"]
    )
    domain: ServerName | None = Field(
        default=None,
        description="The homeserver's server name: the part after the colon in its user ids.",
        examples=["example.org"],
    )
    registration: Path = Field(
        default=Path("registration.yaml"),
        description="The path of the registration file, which `palaver registration` writes.",
    )
    id: Annotated[str, AfterValidator(_id)] = Field(
        default="palaver", description="The id in the registration, unique on the homeserver."
    )
    user_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="_agent_",
        description="The prefix of agents' user names: the agent worker-1 is @_agent_worker-1:example.org.",
    )
    host: Annotated[str, AfterValidator(_ip_address)] = Field(
        default="127.0.0.1", description="The address to listen on for requests of the homeserver."
    )
    port: Port = Field(default=7678, description="The port to listen on for requests of the homeserver.")
    url: Url | None = Field(
        default=None,
        description="The URL at which the homeserver reaches this node. Default: `host` and `port`. Set it if"
        " the node is behind a proxy or on another machine.",
        examples=["http://palaver.internal:7678"],
    )

    @property
    def reached_at(self) -> str:
        """The `url` of the registration: where the homeserver sends its requests."""
        if self.url is not None:
            return self.url
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def check_appservice(matrix_side: MatrixSideName, section: AppService) -> None:
    """Check that an application service has a homeserver and can be reached by it. Raises `ValueError`."""
    if matrix_side == "federation":
        return
    missing = [name for name in ("homeserver", "domain") if getattr(section, name) is None]
    if missing:
        raise ValueError(
            f'matrix_side is "appservice", and [appservice] has no {" and no ".join(missing)}: set the'
            " homeserver to which this node is attached"
        )
    if section.url is None and (section.port == 0 or ip_address(section.host).is_unspecified):
        raise ValueError(
            "[appservice] has no address at which the homeserver reaches this node: set url, or a specific"
            " host and port"
        )


def wanted(section: AppService, node_id: str, alias_kinds: Collection[str] = ()) -> RegistrationSettings:
    """The content of the registration. The configuration must have passed `check_appservice`."""
    assert section.domain is not None, "the configuration was checked"
    namespaces = Namespaces(section.domain, node_id, section.user_prefix)
    return RegistrationSettings(section.id, section.reached_at, namespaces, OFFICE in alias_kinds)
