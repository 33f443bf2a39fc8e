"""The configuration: what every field means, what it may hold, and what to tell a person who got one wrong.

The models are the only place where a field is described. `config.example.toml` and `palaver init` are
rendered from them (`config_example.py`), the mistakes that are reported name the same sentences
(`config_mistakes.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, ByteSize, Field, create_model, model_validator

from bridge.config.agent_federation import AgentFederation
from bridge.config.agents import Agent, each_agent_once
from bridge.config.appservice import (
    DEFAULT_MATRIX_SIDE,
    MATRIX_SIDE_DESCRIPTION,
    AppService,
    MatrixSideName,
    check_appservice,
)
from bridge.config.federation import Federation, Peer
from bridge.config.people import (
    DEFAULT_PERMISSIONS,
    PERMISSIONS_DESCRIPTION,
    PERMISSIONS_EXAMPLE,
    DoublePuppet,
    People,
    Permissions,
    Provisioning,
    check_double_puppet,
)
from bridge.config.section import DatabaseUrl, Network, Port, Seconds, Section, ServerName
from bridge.connectors.registry import CONNECTORS
from bridge.matrix.ghost import NODE_USER
from bridge.peers.peer import PeerProfile

DEFAULT_SERVER_NAME = "localhost:7676"
_Model = TypeVar("_Model", bound=Section)


class Listener(Section):
    """Where this node answers other servers: TLS and, for those allowed, plain HTTP on the same port."""

    hosts: list[str] | None = Field(
        default=None,
        description="The addresses to listen on. Left out: loopback alone while the server name is a loopback"
        " one, all addresses otherwise.",
        examples=[["0.0.0.0", "::"]],  # noqa: S104 - an example for a server that others reach
    )
    port: Port = Field(default=7676, description="The port to listen on.")
    plain_http_from: list[Network] = Field(
        default=[IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")],
        description="The networks that may speak plain HTTP. All others must use TLS.",
    )
    certificate: Path | None = Field(
        default=None,
        description="The TLS certificate chain, PEM. Left out: a development certificate is made in the data"
        " directory, which other servers do not trust. `kill -HUP` reads it again.",
        examples=["/etc/palaver/fullchain.pem"],
    )
    private_key: Path | None = Field(
        default=None,
        description="The private key of that certificate, PEM.",
        examples=["/etc/palaver/privkey.pem"],
    )
    max_connections: int = Field(
        default=2000, ge=1, description="Connections at the same time, from everybody."
    )
    max_connections_per_address: int = Field(
        default=200, ge=1, description="Connections at the same time, from one address."
    )
    max_header_size: ByteSize = Field(
        default=ByteSize(32 * 1024), ge=1024, description="The most that a request's head may weigh."
    )
    max_body_size: ByteSize = Field(
        default=ByteSize(200 * 64 * 1024), ge=1024, description="The most that a request's body may weigh."
    )
    header_timeout: Seconds = Field(default=10.0, description="Seconds for a request's head to arrive whole.")
    body_timeout: Seconds = Field(default=60.0, description="Seconds for a request's body to arrive whole.")
    idle_timeout: Seconds = Field(default=75.0, description="Seconds that an idle connection is kept open.")
    shutdown_timeout: Seconds = Field(
        default=10.0, description="Seconds that requests under way are given to finish when the node stops."
    )

    @model_validator(mode="after")
    def _certificate_with_its_key(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key belong together: name both, or neither")
        return self


class Database(Section):
    """Where the state lives. With no `url` the node runs a Postgres of its own in the data directory."""

    url: DatabaseUrl | None = Field(
        default=None,
        description="An existing Postgres (15 to 18) instead of the embedded one. Without a password in it.",
        examples=["postgresql://palaver@db.example.org:5432/palaver"],
    )
    password_file: Path | None = Field(
        default=None,
        description="The file that holds the password for `url`, and nothing else.",
        examples=["/etc/palaver/database-password"],
    )
    connections: int = Field(
        default=10, ge=2, le=1000, description="Connections to keep to the database, at most."
    )
    run_as: str = Field(
        default="nobody",
        min_length=1,
        description="The user that the embedded Postgres runs as when the node itself runs as root.",
    )
    minimum_free_space: ByteSize = Field(
        default=ByteSize(256 * 1024 * 1024),
        description="The node refuses to start with less than this free on the disk of its data directory.",
    )

    @model_validator(mode="after")
    def _password_for_a_url(self) -> Self:
        if self.password_file is not None and self.url is None:
            raise ValueError("password_file is only used together with url: name that too, or leave both out")
        return self


class Media(Section):
    """Files that agents and people send each other."""

    max_upload_size: ByteSize = Field(
        default=ByteSize(50 * 1024 * 1024), ge=1, description="The most that one file of this node may weigh."
    )
    max_remote_size: ByteSize = Field(
        default=ByteSize(50 * 1024 * 1024),
        ge=1,
        description="The most that one file of another server may weigh to be fetched.",
    )
    remote_cache_size: ByteSize = Field(
        default=ByteSize(2 * 1024 * 1024 * 1024),
        description="How much of other servers' files is kept; beyond it those that were not used for the"
        " longest go. This node's own files are never deleted.",
    )
    remote_cache_days: int = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days after which a file of another server goes that nobody has used.",
    )
    max_image_pixels: int = Field(
        default=32_000_000,
        ge=1,
        le=1_000_000_000,
        description="Pictures with more pixels than this get no thumbnail.",
    )


class Metrics(Section):
    """Figures for Prometheus, on an address of their own."""

    enabled: bool = Field(default=True, description="Whether to serve /metrics at all.")
    host: str = Field(
        default="127.0.0.1", description="The address to serve it on; loopback unless you know better."
    )
    port: Port = Field(default=7677, description="The port to serve it on.")


class Log(Section):
    """What the node writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important lines to write: debug, info, warning or error."
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="`text` for people, `json` for machines, `auto` for text on a terminal only.",
    )


class NodeConfig(Section):
    """One node, without what its connectors have in the configuration."""

    server_name: ServerName = Field(
        default=DEFAULT_SERVER_NAME,
        description="The name of this node in every address: agents here are @agent:server_name. It can't be"
        " changed later. Other servers must be able to resolve it.",
        examples=["palaver.example.org"],
    )
    data_dir: Path = Field(
        default=Path("data"),
        description="Where everything that the node keeps lives: keys, certificate, database. Relative"
        " paths in this file start at the file's own directory.",
    )
    matrix_side: MatrixSideName = Field(default=DEFAULT_MATRIX_SIDE, description=MATRIX_SIDE_DESCRIPTION)
    listener: Listener = Listener()
    database: Database = Database()
    federation: Federation = Federation()
    appservice: AppService = AppService()
    provisioning: Provisioning = Provisioning()
    double_puppet: DoublePuppet = DoublePuppet()
    agent_federation: AgentFederation = AgentFederation()
    people: People = People()
    permissions: Permissions = Field(
        default=DEFAULT_PERMISSIONS, description=PERMISSIONS_DESCRIPTION, examples=[PERMISSIONS_EXAMPLE]
    )
    media: Media = Media()
    metrics: Metrics = Metrics()
    log: Log = Log()
    agents: Annotated[list[Agent], AfterValidator(each_agent_once)] = Field(
        default=[], description="The agents that this node runs itself."
    )
    peers: list[Peer] = Field(
        default=[],
        description="The servers that this node deals with.",
    )

    @model_validator(mode="after")
    def _a_guest_of_some_homeserver(self) -> Self:
        check_appservice(self.matrix_side, self.appservice)
        check_double_puppet(self.double_puppet, self.appservice)
        return self

    @model_validator(mode="after")
    def _each_peer_once(self) -> Self:
        names = [peer.server_name.lower() for peer in self.peers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"peers name {', '.join(twice)} more than once: keep one block for each server")
        return self

    @model_validator(mode="after")
    def _agents_in_namespaces_that_there_are(self) -> Self:
        known = self.agent_federation.namespaces
        for agent in self.agents:
            missing = sorted(set(agent.namespaces) - set(known))
            if missing:
                raise ValueError(
                    f"the agent {agent.id} is in namespaces that there are not, {', '.join(missing)}: write"
                    " them into namespaces of [agent_federation.room]"
                )
        return self

    @model_validator(mode="after")
    def _no_agent_is_the_node(self) -> Self:
        if any(agent.id == NODE_USER for agent in self.agents):
            raise ValueError(f"no agent can be called {NODE_USER}: the node itself is, choose another id")
        if self.server_name.lower() in {peer.node_id.lower() for peer in self.agent_federation.peers}:
            raise ValueError("this node is among its own agent_federation.peers: take that block out")
        return self

    @model_validator(mode="after")
    def _as_the_connectors_need_it(self) -> Self:
        for connector in CONNECTORS:
            connector.check(self)
        return self

    @model_validator(mode="after")
    def _peers_that_a_guest_can_have(self) -> Self:
        in_rooms = sorted(
            peer.node_id
            for peer in self.agent_federation.peers
            if self.guest_of is not None and peer.profile is PeerProfile.MATRIX
        )
        if in_rooms:
            raise ValueError(
                f'agent_federation.peers: {", ".join(in_rooms)} with profile = "matrix", whose rooms a guest'
                ' cannot share: write profile = "cis-1.1" and url there, and name this node so'
                " on the other one"
            )
        return self

    def section(self, name: str, model: type[_Model]) -> _Model:
        """What a connector has in the configuration."""
        found = getattr(self, name)
        assert isinstance(found, model), f"[{name}] is another connector's"
        return found

    def relative_to(self, base: Path) -> Self:
        """Every path in it made absolute, starting at `base`."""
        return self.model_copy(
            update={
                name: _absolute(value, base)
                for name in type(self).model_fields
                for value in [getattr(self, name)]
            }
        )

    @property
    def alias_kinds(self) -> frozenset[str]:
        """The kinds of rooms of connectors whose aliases an application service has to reserve."""
        return frozenset(kind for connector in CONNECTORS for kind in connector.alias_kinds(self))

    @property
    def guest_of(self) -> str | None:
        """The homeserver of which this node is a guest; None: it is a homeserver itself."""
        return self.appservice.domain if self.matrix_side == "appservice" else None

    @property
    def listen_hosts(self) -> list[str]:
        if self.listener.hosts is not None:
            return self.listener.hosts
        return ["127.0.0.1", "::1"] if is_loopback(self.server_name) else ["0.0.0.0", "::"]  # noqa: S104 - a public name


if TYPE_CHECKING:
    Config = NodeConfig
else:
    # The whole configuration: the sections of the connectors stand beside those above.
    Config = create_model(
        "Config",
        __base__=NodeConfig,
        __module__=__name__,
        **{name: (model, model()) for one in CONNECTORS for name, model in one.sections.items()},
    )


def is_loopback(server_name: str) -> bool:
    """Whether a server of this name can be reached from its own machine only."""
    host = server_name if server_name.endswith("]") else re.sub(r":\d+$", "", server_name)
    return host.lower() == "localhost" or host.startswith("127.") or host == "[::1]"


def _absolute(value: Any, base: Path) -> Any:
    if isinstance(value, Path):
        return base / value
    if isinstance(value, Section):
        return value.model_copy(
            update={name: _absolute(getattr(value, name), base) for name in type(value).model_fields}
        )
    if isinstance(value, list):
        return [_absolute(item, base) for item in value]
    return value


@dataclass(frozen=True)
class Source:
    """Where the values came from: the file, if there was one, and what the environment laid over it."""

    path: Path | None
    overrides: Mapping[str, str]
