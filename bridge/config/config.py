"""The models of the configuration: each field with its type, its limits and its description.

A field is described only here. `config.example.toml` and the file that `palaver init` writes are rendered
from these models (`example.py`), and error messages quote the same descriptions (`errors.py`).
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
    """The port on which this node serves other servers and clients: TLS and, for the networks allowed below,
    plain HTTP on the same port."""

    hosts: list[str] | None = Field(
        default=None,
        description="The addresses to listen on. Default: only loopback if the server name is a loopback"
        " name, otherwise all addresses.",
        examples=[["0.0.0.0", "::"]],  # noqa: S104 - an example for a public server
    )
    port: Port = Field(default=7676, description="The port to listen on.")
    plain_http_from: list[Network] = Field(
        default=[IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")],
        description="Networks from which plain HTTP is accepted. All other clients must use TLS.",
    )
    certificate: Path | None = Field(
        default=None,
        description="The TLS certificate chain, in PEM format. Default: the node generates a development"
        " certificate in its data directory, which other servers do not trust. `kill -HUP` reloads the file.",
        examples=["/etc/palaver/fullchain.pem"],
    )
    private_key: Path | None = Field(
        default=None,
        description="The private key of `certificate`, in PEM format.",
        examples=["/etc/palaver/privkey.pem"],
    )
    max_connections: int = Field(default=2000, ge=1, description="Maximum number of simultaneous connections in total.")
    max_connections_per_address: int = Field(
        default=200, ge=1, description="Maximum number of simultaneous connections from one address."
    )
    max_header_size: ByteSize = Field(
        default=ByteSize(32 * 1024), ge=1024, description="Maximum size of a request's head (request line and headers)."
    )
    max_body_size: ByteSize = Field(
        default=ByteSize(200 * 64 * 1024), ge=1024, description="Maximum size of a request's body."
    )
    header_timeout: Seconds = Field(
        default=10.0, description="Seconds within which the complete head of a request must arrive."
    )
    body_timeout: Seconds = Field(
        default=60.0, description="Seconds within which the complete body of a request must arrive."
    )
    idle_timeout: Seconds = Field(default=75.0, description="Seconds after which an idle connection is closed.")
    shutdown_timeout: Seconds = Field(
        default=10.0, description="Seconds that running requests have to finish when the node stops."
    )

    @model_validator(mode="after")
    def _certificate_with_its_key(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key belong together: set both, or neither")
        return self


class Database(Section):
    """The database. Without `url` the node runs an embedded Postgres in its data directory."""

    url: DatabaseUrl | None = Field(
        default=None,
        description="The URL of an existing Postgres (15 to 18) to use instead of the embedded one. It must"
        " not contain a password: see password_file.",
        examples=["postgresql://palaver@db.example.org:5432/palaver"],
    )
    password_file: Path | None = Field(
        default=None,
        description="A file that contains only the password for `url`.",
        examples=["/etc/palaver/database-password"],
    )
    connections: int = Field(default=10, ge=2, le=1000, description="Maximum number of connections to the database.")
    run_as: str = Field(
        default="nobody",
        min_length=1,
        description="The system user that runs the embedded Postgres if the node itself runs as root.",
    )
    minimum_free_space: ByteSize = Field(
        default=ByteSize(256 * 1024 * 1024),
        description="Free space that the disk of the data directory must have. With less the node refuses to start.",
    )

    @model_validator(mode="after")
    def _password_for_a_url(self) -> Self:
        if self.password_file is not None and self.url is None:
            raise ValueError("password_file is only used together with url: set url too, or remove both")
        return self


class Media(Section):
    """The media repository: files that agents and people send to each other."""

    max_upload_size: ByteSize = Field(
        default=ByteSize(50 * 1024 * 1024), ge=1, description="Maximum size of a file uploaded to this node."
    )
    max_remote_size: ByteSize = Field(
        default=ByteSize(50 * 1024 * 1024),
        ge=1,
        description="Maximum size of a file that this node downloads from another server.",
    )
    remote_cache_size: ByteSize = Field(
        default=ByteSize(2 * 1024 * 1024 * 1024),
        description="Size of the cache of other servers' files. When it is full, the least recently used"
        " files are deleted. Files uploaded to this node are never deleted.",
    )
    remote_cache_days: int = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days without use after which a cached file of another server is deleted.",
    )
    max_image_pixels: int = Field(
        default=32_000_000,
        ge=1,
        le=1_000_000_000,
        description="Maximum number of pixels of an image for which thumbnails are generated.",
    )


class Metrics(Section):
    """Metrics for Prometheus, served on a separate address."""

    enabled: bool = Field(default=True, description="Whether to serve /metrics.")
    host: str = Field(
        default="127.0.0.1",
        description="The address to listen on for /metrics. There is no access control, so keep it private.",
    )
    port: Port = Field(default=7677, description="The port to listen on for /metrics.")


class Log(Section):
    """The log, which the node writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level to log: debug, info, warning or error."
    )
    format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="`text` for people, `json` for programs, `auto`: text on a terminal, JSON elsewhere.",
    )


class NodeConfig(Section):
    """The configuration of a node without the sections of its connectors."""

    server_name: ServerName = Field(
        default=DEFAULT_SERVER_NAME,
        description="The Matrix server name of this node. Its agents have the user ids @agent:server_name."
        " Other servers must be able to resolve it. It can't be changed later.",
        examples=["palaver.example.org"],
    )
    data_dir: Path = Field(
        default=Path("data"),
        description="The directory for keys, certificate, media and the embedded database. Relative paths in"
        " this file are relative to the directory of this file.",
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
        default=[], description="The agents that this node runs as local commands."
    )
    peers: list[Peer] = Field(default=[], description="The servers with which this node federates.")

    @model_validator(mode="after")
    def _appservice_is_complete(self) -> Self:
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
    def _namespaces_of_agents_exist(self) -> Self:
        known = self.agent_federation.namespaces
        for agent in self.agents:
            missing = sorted(set(agent.namespaces) - set(known))
            if missing:
                raise ValueError(
                    f"the agent {agent.id} is in unknown namespaces, {', '.join(missing)}: add them to"
                    " namespaces in [agent_federation.room]"
                )
        return self

    @model_validator(mode="after")
    def _no_agent_is_the_node(self) -> Self:
        if any(agent.id == NODE_USER for agent in self.agents):
            raise ValueError(
                f"an agent has the id {NODE_USER}, which is reserved for the node itself: choose another id"
            )
        if self.server_name.lower() in {peer.node_id.lower() for peer in self.agent_federation.peers}:
            raise ValueError("agent_federation.peers contains this node itself: remove that block")
        return self

    @model_validator(mode="after")
    def _connectors_accept_it(self) -> Self:
        for connector in CONNECTORS:
            connector.check(self)
        return self

    @model_validator(mode="after")
    def _peers_fit_the_matrix_backend(self) -> Self:
        in_rooms = sorted(
            peer.node_id
            for peer in self.agent_federation.peers
            if self.attached_to is not None and peer.profile is PeerProfile.MATRIX
        )
        if in_rooms:
            raise ValueError(
                f'agent_federation.peers: {", ".join(in_rooms)} with profile = "matrix" needs rooms shared'
                ' between homeservers, which an application service cannot provide: set profile = "cis-1.1"'
                " and url there, and configure this node in the same way on the other one"
            )
        return self

    def section(self, name: str, model: type[_Model]) -> _Model:
        """Return the connector's section `name`, which must be an instance of `model`."""
        section = getattr(self, name)
        assert isinstance(section, model), f"[{name}] belongs to another connector"
        return section

    def relative_to(self, base: Path) -> Self:
        """Return a copy in which every relative path is resolved against `base`."""
        return self.model_copy(
            update={name: _absolute(value, base) for name in type(self).model_fields for value in [getattr(self, name)]}
        )

    @property
    def alias_kinds(self) -> frozenset[str]:
        """The kinds of connector rooms whose aliases the application service has to reserve."""
        return frozenset(kind for connector in CONNECTORS for kind in connector.alias_kinds(self))

    @property
    def attached_to(self) -> str | None:
        """The name of the homeserver to which this node is attached as an application service, or None if
        this node is a homeserver itself."""
        return self.appservice.domain if self.matrix_side == "appservice" else None

    @property
    def listen_hosts(self) -> list[str]:
        if self.listener.hosts is not None:
            return self.listener.hosts
        return ["127.0.0.1", "::1"] if is_loopback(self.server_name) else ["0.0.0.0", "::"]  # noqa: S104 - a public name


if TYPE_CHECKING:
    Config = NodeConfig
else:
    # The complete configuration: the sections above and those of the connectors.
    Config = create_model(
        "Config",
        __base__=NodeConfig,
        __module__=__name__,
        **{name: (model, model()) for one in CONNECTORS for name, model in one.sections.items()},
    )


def is_loopback(server_name: str) -> bool:
    """Whether only its own machine can reach a server of this name."""
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
    """The origin of the values: the file, if there is one, and the environment variables that override it."""

    path: Path | None
    overrides: Mapping[str, str]
