"""The configuration of a node that is a guest: an application service of a homeserver that there is
already."""

import re
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from appservice.registration.namespaces import OFFICE, Namespaces, wrong_prefix
from appservice.registration.registration import Wanted, wrong_id
from bridge.config.section import Port, Section, ServerName

MatrixSideName = Literal["federation", "appservice"]
"""The type of `matrix_side`, at the top of the configuration."""

DEFAULT_MATRIX_SIDE: Final[MatrixSideName] = "federation"
MATRIX_SIDE_DESCRIPTION: Final = (
    "What carries the rooms of this node: `federation`, it is a homeserver itself, or `appservice`, it is a"
    " guest of the homeserver that [appservice] names."
)

_URL: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", re.ASCII)


def _url(value: str) -> str:
    if _URL.fullmatch(value) is None:
        raise ValueError("must be http:// or https:// and a host, like http://127.0.0.1:8008")
    return value.rstrip("/")


def _prefix(value: str) -> str:
    wrong = wrong_prefix(value)
    if wrong is not None:
        raise ValueError(f"is no prefix of ghosts: {wrong[:1].lower()}{wrong[1:].rstrip('.')}")
    return value


def _id(value: str) -> str:
    wrong = wrong_id(value)
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
    """The homeserver of which this node is a guest, when `matrix_side` is "appservice"."""

    homeserver: Url | None = Field(
        default=None,
        description="Where this node reaches the homeserver's clients' port.",
        examples=["http://127.0.0.1:8008"],
    )
    domain: ServerName | None = Field(
        default=None,
        description="What the homeserver is called: what stands behind the colon in its users' ids.",
        examples=["example.org"],
    )
    registration: Path = Field(
        default=Path("registration.yaml"),
        description="The file by which the homeserver knows this node; `palaver registration` writes it.",
    )
    id: Annotated[str, AfterValidator(_id)] = Field(
        default="palaver", description="The id in it, of which the homeserver knows one."
    )
    user_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="_agent_",
        description="What the names of agents begin with there: worker-1 is @_agent_worker-1:example.org.",
    )
    host: Annotated[str, AfterValidator(_ip_address)] = Field(
        default="127.0.0.1", description="The address to listen on for the homeserver."
    )
    port: Port = Field(default=7678, description="The port to listen on for the homeserver.")
    url: Url | None = Field(
        default=None,
        description="Where the homeserver reaches this node, if that is not the address above: behind a"
        " proxy, or from another machine.",
        examples=["http://palaver.internal:7678"],
    )

    @property
    def reached_at(self) -> str:
        """What the registration says."""
        if self.url is not None:
            return self.url
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def check_appservice(matrix_side: MatrixSideName, section: AppService) -> None:
    """What only the two together can be asked. Raises `ValueError`, as validators do."""
    if matrix_side == "federation":
        return
    missing = [name for name in ("homeserver", "domain") if getattr(section, name) is None]
    if missing:
        raise ValueError(
            f'matrix_side is "appservice", and [appservice] has no {" and no ".join(missing)}: say of which'
            " homeserver this node is a guest"
        )
    if section.url is None and (section.port == 0 or ip_address(section.host).is_unspecified):
        raise ValueError(
            "[appservice] does not say where the homeserver reaches this node: write url, or a host and"
            " a port that lead here"
        )


def wanted(section: AppService, node_id: str, alias_kinds: Collection[str] = ()) -> Wanted:
    """What the registration has to say, of a configuration that `check_appservice` has passed."""
    assert section.domain is not None, "the configuration was checked"
    namespaces = Namespaces(section.domain, node_id, section.user_prefix)
    return Wanted(section.id, section.reached_at, namespaces, OFFICE in alias_kinds)
