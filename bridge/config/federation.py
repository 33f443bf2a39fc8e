"""The configuration of federation: the servers with which this node federates, and how it discovers them."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bridge.config.section import HostPort, Network, Section, ServerName


class Federation(Section):
    """Federation: the servers with which this node exchanges events, and how it discovers them."""

    mode: Literal["closed", "open"] = Field(
        default="closed",
        description="`closed`: federate only with the servers in [[peers]] blocks. `open`: federate with"
        " every Matrix server.",
    )
    refuse: list[str] = Field(
        default=[],
        description="Servers to refuse in both modes. * matches any characters, ? matches one.",
        examples=[["*.example.net"]],
    )
    authorities: Path | None = Field(
        default=None,
        description="Certificate authorities to trust in addition to those of the system, in PEM format.",
        examples=["/etc/palaver/authorities.pem"],
    )
    blocked_networks: list[Network] | None = Field(
        default=None,
        description="Networks to which this node does not connect when the DNS or `.well-known` of another"
        " server points there. Default: all networks that are not public. Servers in [[peers]] blocks are"
        " exempt.",
        examples=[["10.0.0.0/8", "192.168.0.0/16"]],
    )
    name_servers: list[HostPort] = Field(
        default=[], description="DNS servers to use instead of those of the system.", examples=[["192.168.1.1:53"]]
    )
    notaries: list[ServerName] = Field(
        default=[],
        description="Notary servers from which to fetch the keys of servers that cannot be reached. This node"
        " must be allowed to federate with them.",
        examples=[["matrix.org"]],
    )
    delegate: HostPort | ServerName | None = Field(
        default=None,
        description="Host and port at which other servers reach this node, if not under its server name. The"
        " node serves it as `/.well-known/matrix/server`, which has to be available on port 443 of the server"
        " name.",
        examples=["matrix.example.org:443"],
    )
    public_rooms: bool = Field(
        default=True, description="Whether servers that may federate with this one can list its public rooms."
    )
    proxies: list[Network] = Field(
        default=[],
        description="Addresses of reverse proxies. Requests from them come from many servers, so the limits"
        " for a single address do not apply.",
        examples=[["192.168.1.2/32"]],
    )
    audit_days: int = Field(
        default=90, ge=1, le=36_500, description="Days for which `palaver audit` keeps its records of what servers did."
    )


class Peer(Section):
    """A server with which this node federates. Write one `[[peers]]` block for each."""

    server_name: ServerName = Field(description="The peer's server name.", examples=["kitchen.local"])
    plain: bool = Field(
        default=False,
        description="Whether the peer may send plain HTTP to this node's port, as published CIS nodes do.",
    )
    networks: list[Network] = Field(
        default=[], description="With `plain`: the addresses from which the peer sends.", examples=[["192.168.1.20/32"]]
    )
    address: HostPort | None = Field(
        default=None,
        description="Address to connect to, instead of the peer's `.well-known` and DNS records. The peer's"
        " certificate must still be valid for its server name.",
        examples=["192.168.1.20:7676"],
    )
    authority: Path | None = Field(
        default=None,
        description="A certificate authority to trust for this peer only, in PEM format. For a peer with a"
        " development certificate: `tls/ca.pem` in the peer's data directory.",
        examples=["/etc/palaver/peers/kitchen-ca.pem"],
    )
    client_certificate: Path | None = Field(
        default=None,
        description="The peer's client certificate, or that of its authority, in PEM format. If set, this"
        " node rejects requests of the peer whose connection did not present that certificate.",
        examples=["/etc/palaver/peers/kitchen.pem"],
    )

    show_certificate: Path | None = Field(
        default=None,
        description="The client certificate that this node presents to this peer, in PEM format.",
        examples=["/etc/palaver/client.pem"],
    )
    show_private_key: Path | None = Field(
        default=None,
        description="The private key of `show_certificate`, in PEM format.",
        examples=["/etc/palaver/client-key.pem"],
    )

    @model_validator(mode="after")
    def _certificate_with_its_key(self) -> Self:
        if (self.show_certificate is None) != (self.show_private_key is None):
            raise ValueError("show_certificate and show_private_key belong together: set both, or neither")
        return self

    @model_validator(mode="after")
    def _plain_peer_is_identified_by_address(self) -> Self:
        if self.plain and not self.networks:
            raise ValueError("plain = true needs networks: set the addresses from which this peer sends")
        if self.plain and self.client_certificate is not None:
            raise ValueError(
                "plain = true and client_certificate exclude each other: plain HTTP has no certificates,"
                " remove one of them"
            )
        return self
