"""What the configuration, or an operator, says of how to reach one server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """`address`: `host:port` to connect to instead of asking anybody; the certificate must still be for the
    peer's own name. `plain`: speak HTTP without TLS, as published CIS nodes do. `client_certificate`: what
    this peer wants to be shown. `authority`: a file of certificates, PEM, that this peer's may come from
    beside those that all may come from; `certificates`: the same, where they are in no file."""

    address: str | None = None
    plain: bool = False
    client_certificate: CertificateFiles | None = None
    authority: Path | None = None
    certificates: str | None = field(default=None, repr=False)

    @property
    def trust(self) -> Trust:
        return Trust(self.authority, self.client_certificate, self.certificates)


NOTHING_SPECIAL = PeerSettings()


class Peers:
    """The settings by server name, found in any case. `added` are by their names in lower case, and may
    change from one question to the next."""

    def __init__(
        self,
        settings: Mapping[str, PeerSettings] | None = None,
        added: Mapping[str, PeerSettings] | None = None,
    ) -> None:
        self._settings = {name.lower(): value for name, value in (settings or {}).items()}
        self._added: Mapping[str, PeerSettings] = {} if added is None else added

    def of(self, server_name: str) -> PeerSettings:
        name = server_name.lower()
        return self._settings.get(name) or self._added.get(name, NOTHING_SPECIAL)

    def know(self, server_name: str) -> bool:
        """Whether the configuration names it, or an operator has added it."""
        name = server_name.lower()
        return name in self._settings or name in self._added

    def trusts(self) -> frozenset[Trust]:
        """Every way of shaking hands that the settings ask for, each once."""
        return frozenset(one.trust for one in (*self._settings.values(), *self._added.values()))
