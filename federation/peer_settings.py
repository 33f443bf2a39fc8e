"""What the configuration says of how to reach one server."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """In PEM: a certificate with what stands above it, and its private key."""

    certificate: Path
    private_key: Path


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom we believe beside the authorities that everybody may have, and what we show."""

    authority: Path | None = None
    client_certificate: CertificateFiles | None = None


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """`address`: `host:port` to connect to instead of asking anybody; the certificate must still be for the
    peer's own name. `plain`: speak HTTP without TLS, as published CIS nodes do. `client_certificate`: what
    this peer wants to be shown. `authority`: a file of certificates, PEM, that this peer's may come from
    beside those that all may come from."""

    address: str | None = None
    plain: bool = False
    client_certificate: CertificateFiles | None = None
    authority: Path | None = None

    @property
    def trust(self) -> Trust:
        return Trust(self.authority, self.client_certificate)


NOTHING_SPECIAL = PeerSettings()


class Peers:
    """The settings by server name, found in any case."""

    def __init__(self, settings: Mapping[str, PeerSettings] | None = None) -> None:
        self._settings = {name.lower(): value for name, value in (settings or {}).items()}

    def of(self, server_name: str) -> PeerSettings:
        return self._settings.get(server_name.lower(), NOTHING_SPECIAL)

    def know(self, server_name: str) -> bool:
        """Whether the configuration names it."""
        return server_name.lower() in self._settings

    def trusts(self) -> frozenset[Trust]:
        """Every way of shaking hands that the settings ask for, each once."""
        return frozenset(one.trust for one in self._settings.values())
