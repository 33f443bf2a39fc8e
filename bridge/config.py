"""The configuration: what every field means, what it may hold, and what to tell a person who got one wrong.

The models are the only place where a field is described. `config.example.toml` and `palaver init` are
rendered from them (`config_example.py`), the mistakes that are reported name the same sentences
(`config_mistakes.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, PlainValidator, model_validator

from federation.identifiers import is_server_name

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Port = Annotated[int, Field(ge=0, le=65_535)]

DEFAULT_SERVER_NAME = "localhost:7676"


def _server_name(value: str) -> str:
    if not is_server_name(value):
        raise ValueError("is not a server name: a host name or an IP address, with :port if it needs one")
    return value


def _no_password(value: str) -> str:
    if re.match(r"postgres(ql)?://", value) is None:
        raise ValueError("must begin with postgresql://")
    if re.match(r"[a-z]+://[^/@]*:[^/@]*@", value) or re.search(r"[?&]password=", value):
        raise ValueError(
            "must not hold a password: put that into a file of its own and name it in password_file"
        )
    return value


def _network(value: Any) -> IPv4Network | IPv6Network:
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(
            f"{error}: write an address with its prefix, like 192.168.1.0/24 or ::1/128"
        ) from error


Network = Annotated[IPv4Network | IPv6Network, PlainValidator(_network)]
ServerName = Annotated[str, AfterValidator(_server_name)]
DatabaseUrl = Annotated[str, AfterValidator(_no_password)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


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


class Peer(Section):
    """A server that this node deals with. Write one `[[peers]]` block for each."""

    server_name: ServerName = Field(description="Its server name.", examples=["kitchen.local"])
    plain: bool = Field(
        default=False, description="Whether it may speak plain HTTP to port 7676, as published CIS nodes do."
    )
    networks: list[Network] = Field(
        default=[],
        description="The addresses that it speaks plain HTTP from.",
        examples=[["192.168.1.20/32"]],
    )
    client_certificate: Path | None = Field(
        default=None,
        description="Its certificate, or that of its authority, PEM. Once named, no request counts as this"
        " peer's unless its connection showed that certificate.",
        examples=["/etc/palaver/peers/kitchen.pem"],
    )

    @model_validator(mode="after")
    def _plain_from_somewhere(self) -> Self:
        if self.plain and not self.networks:
            raise ValueError("plain = true needs networks: the addresses that this peer speaks from")
        if self.plain and self.client_certificate is not None:
            raise ValueError(
                "plain = true and client_certificate exclude each other: plain HTTP shows no certificate"
            )
        return self


class Config(Section):
    """One node."""

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
    listener: Listener = Listener()
    database: Database = Database()
    metrics: Metrics = Metrics()
    log: Log = Log()
    peers: list[Peer] = Field(
        default=[],
        description="The servers that this node deals with.",
        examples=[[{"server_name": "kitchen.local"}]],
    )

    @model_validator(mode="after")
    def _each_peer_once(self) -> Self:
        names = [peer.server_name.lower() for peer in self.peers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"peers name {', '.join(twice)} more than once: keep one block for each server")
        return self

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
    def listen_hosts(self) -> list[str]:
        if self.listener.hosts is not None:
            return self.listener.hosts
        return ["127.0.0.1", "::1"] if is_loopback(self.server_name) else ["0.0.0.0", "::"]  # noqa: S104 - a public name


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
