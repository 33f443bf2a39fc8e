"""Decides which connections are accepted on the port, and which peers a client certificate authenticates."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from federation.matrix.identifiers import parse_server_name

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# RFC 8446, 5.1: the first byte of a TLS connection is the content type of its first record, a handshake.
TLS_HANDSHAKE = 0x16
# RFC 6890 and its registries: no public server has such an address. Ranges that embed an IPv4 address (NAT64,
# 6to4, Teredo) are included, because they lead to that address.
NOT_PUBLIC: Final[tuple[Network, ...]] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
        "3fff::/20", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


class Refusal(StrEnum):
    """Why a connection was refused. The values are metric labels: few, and never taken from a peer."""

    PLAIN_NOT_ALLOWED = "plain_not_allowed"
    TLS_NOT_OFFERED = "tls_not_offered"
    SILENT = "silent"
    GONE = "gone"
    TOO_MANY = "too_many_connections"
    TOO_MANY_FROM_ADDRESS = "too_many_connections_from_address"


@dataclass(frozen=True, slots=True)
class AcceptTls:
    """Accept the connection and do a TLS handshake."""


@dataclass(frozen=True, slots=True)
class AcceptPlain:
    """Accept the connection and read plain HTTP."""


@dataclass(frozen=True, slots=True)
class Refuse:
    reason: Refusal


Decision = AcceptTls | AcceptPlain | Refuse


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The rules of the configuration. Clients in `plain_networks` may also see details of `/health`. The
    networks are read for each connection."""

    plain_networks: Collection[Network] = LOOPBACK
    offers_tls: bool = True


def admit(address: Address, first_byte: int | None, rules: AdmissionRules) -> Decision:
    """Decide by the first byte, before anything is parsed. None: the peer closed the connection without
    sending."""
    if first_byte is None:
        return Refuse(Refusal.GONE)
    if first_byte == TLS_HANDSHAKE:
        return AcceptTls() if rules.offers_tls else Refuse(Refusal.TLS_NOT_OFFERED)
    return AcceptPlain() if is_within(address, rules.plain_networks) else Refuse(Refusal.PLAIN_NOT_ALLOWED)


def read_address(host: str) -> Address:
    """The address of a peer, without scope. An IPv4-mapped IPv6 address becomes the IPv4 address."""
    address = ip_address(host.partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of the networks. An address of the other family is in none."""
    return any(address in network for network in networks)


def limited_network(address: Address) -> Network:
    """The network to which a limit per address applies: one IPv4 address, or an IPv6 /64, which one host may
    own."""
    return ip_network((address, 64 if isinstance(address, IPv6Address) else 32), strict=False)


@dataclass(frozen=True, slots=True)
class PinnedCertificate:
    """A client certificate of the configuration: the leaf certificate of a peer, or its authority."""

    peer: str
    fingerprint: str
    is_authority: bool


@dataclass(frozen=True, slots=True)
class PresentedCertificate:
    """The fields of a verified client certificate that these decisions need.

    `signed_by`: the fingerprints of the pinned authorities that signed it.
    """

    fingerprint: str
    names: frozenset[str] = frozenset()
    signed_by: frozenset[str] = frozenset()


def peers_of_certificate(shown: PresentedCertificate, pinned: Collection[PinnedCertificate]) -> frozenset[str]:
    """The peers that a certificate authenticates, in lower case.

    A pinned leaf authenticates its peer only. A certificate signed by a pinned authority authenticates the
    peer of that authority. If several peers pin the same authority, the certificate must also name the peer's
    host, because otherwise each of them could impersonate the others.
    """
    shared = {
        fingerprint
        for fingerprint in shown.signed_by
        if len({pin.peer.lower() for pin in pinned if pin.fingerprint == fingerprint}) > 1
    }
    names = {name.lower() for name in shown.names}
    return frozenset(
        pin.peer.lower()
        for pin in pinned
        if pin.fingerprint == shown.fingerprint
        or (
            pin.is_authority
            and pin.fingerprint in shown.signed_by
            and (pin.fingerprint not in shared or host_of(pin.peer).lower() in names)
        )
    )


def lacks_required_certificate(origin: str, shown: Collection[str], required: Collection[str]) -> bool:
    """Whether a request from `origin` lacks the client certificate that this peer must present.

    `shown` and `required` contain lower-case server names. A server name in capitals must not circumvent the
    check.
    """
    claimed = origin.lower()
    return claimed in required and claimed not in shown


def host_of(server_name: str) -> str:
    """The host of a server name in the form of certificates: without port, an IPv6 literal without
    brackets."""
    parsed = parse_server_name(server_name)
    return (parsed.host if parsed else server_name).strip("[]")
