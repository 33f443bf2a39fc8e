"""The configuration of federation: with whom this node speaks, and how it finds them."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bridge.config.section import HostPort, Network, Section, ServerName


class Federation(Section):
    """With which other servers this node speaks, and how it finds them."""

    mode: Literal["closed", "open"] = Field(
        default="closed",
        description="`closed`: with the servers of the [[peers]] blocks alone. `open`: with every Matrix"
        " server.",
    )
    refuse: list[str] = Field(
        default=[],
        description="Servers to refuse in both modes; * and ? stand for any characters and for one.",
        examples=[["*.example.net"]],
    )
    authorities: Path | None = Field(
        default=None,
        description="Certificates of authorities to believe beside those of the system, PEM.",
        examples=["/etc/palaver/authorities.pem"],
    )
    blocked_networks: list[Network] | None = Field(
        default=None,
        description="Networks that no stranger's DNS or `.well-known` may lead this node into. Left out: all"
        " that are not public. Servers of the [[peers]] blocks may be anywhere.",
        examples=[["10.0.0.0/8", "192.168.0.0/16"]],
    )
    name_servers: list[HostPort] = Field(
        default=[],
        description="Name servers to ask instead of those of the system.",
        examples=[["192.168.1.1:53"]],
    )
    notaries: list[ServerName] = Field(
        default=[],
        description="Servers to ask for the keys of those that do not answer themselves. This node must be"
        " allowed to speak with them.",
        examples=[["matrix.org"]],
    )
    delegate: HostPort | ServerName | None = Field(
        default=None,
        description="Where other servers find this one, if not under its own name: told to them under"
        " `/.well-known/matrix/server`, for which somebody has to answer on port 443 of the server name.",
        examples=["matrix.example.org:443"],
    )
    public_rooms: bool = Field(
        default=True, description="Whether the servers that may speak with this one see its published rooms."
    )
    proxies: list[Network] = Field(
        default=[],
        description="Addresses of reverse proxies, behind which many servers stand: not limited as one.",
        examples=[["192.168.1.2/32"]],
    )
    audit_days: int = Field(
        default=90,
        ge=1,
        le=36_500,
        description="Days for which `palaver audit` can tell what servers did to each other.",
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
    address: HostPort | None = Field(
        default=None,
        description="Where to connect to it, instead of asking its `.well-known` and the DNS. Its certificate"
        " must be for its name all the same.",
        examples=["192.168.1.20:7676"],
    )
    authority: Path | None = Field(
        default=None,
        description="A certificate to believe from this peer alone, PEM: for a peer with a development"
        " certificate, the `tls/ca.pem` of its data directory.",
        examples=["/etc/palaver/peers/kitchen-ca.pem"],
    )
    client_certificate: Path | None = Field(
        default=None,
        description="Its certificate, or that of its authority, PEM. Once named, no request counts as this"
        " peer's unless its connection showed that certificate.",
        examples=["/etc/palaver/peers/kitchen.pem"],
    )

    show_certificate: Path | None = Field(
        default=None,
        description="The certificate that this node shows to this peer, PEM, where it asks for one.",
        examples=["/etc/palaver/client.pem"],
    )
    show_private_key: Path | None = Field(
        default=None,
        description="The private key of that certificate, PEM.",
        examples=["/etc/palaver/client-key.pem"],
    )

    @model_validator(mode="after")
    def _shown_with_its_key(self) -> Self:
        if (self.show_certificate is None) != (self.show_private_key is None):
            raise ValueError("show_certificate and show_private_key belong together: name both, or neither")
        return self

    @model_validator(mode="after")
    def _plain_from_somewhere(self) -> Self:
        if self.plain and not self.networks:
            raise ValueError("plain = true needs networks: the addresses that this peer speaks from")
        if self.plain and self.client_certificate is not None:
            raise ValueError(
                "plain = true and client_certificate exclude each other: plain HTTP shows no certificate"
            )
        return self
