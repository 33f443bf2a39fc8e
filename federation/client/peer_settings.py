"""Connection settings for single servers, from the configuration or from an operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files: a certificate with its chain, and its private key."""

    certificate: Path
    private_key: Path


@dataclass(frozen=True, slots=True)
class Trust:
    """The TLS settings for a peer: certificate authorities to trust besides those for all peers (a file, or
    PEM text in `certificates`), and the client certificate to present."""

    authority: Path | None = None
    client_certificate: CertificateFiles | None = None
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """How to connect to one server.

    `address`: `host:port` to connect to, without server discovery; the certificate must still be valid for
    the peer's server name. `plain`: use HTTP without TLS, as published CIS nodes do. `client_certificate`:
    presented to this peer. `authority`: a PEM file of certificate authorities to trust for this peer, besides
    those for all peers; `certificates`: the same as PEM text.
    """

    address: str | None = None
    plain: bool = False
    client_certificate: CertificateFiles | None = None
    authority: Path | None = None
    certificates: str | None = field(default=None, repr=False)

    @property
    def trust(self) -> Trust:
        return Trust(self.authority, self.client_certificate, self.certificates)


DEFAULT_SETTINGS = PeerSettings()


class ConfiguredPeers:
    """The settings of configured peers by server name, regardless of case. `added` maps lower-case server
    names to the settings of peers that an operator has added; it may change at any time."""

    def __init__(
        self, settings: Mapping[str, PeerSettings] | None = None, added: Mapping[str, PeerSettings] | None = None
    ) -> None:
        self._settings = {name.lower(): value for name, value in (settings or {}).items()}
        self._added: Mapping[str, PeerSettings] = {} if added is None else added

    def of(self, server_name: str) -> PeerSettings:
        name = server_name.lower()
        return self._settings.get(name) or self._added.get(name, DEFAULT_SETTINGS)

    def is_configured(self, server_name: str) -> bool:
        """Whether the peer is in the configuration or was added by an operator."""
        name = server_name.lower()
        return name in self._settings or name in self._added

    def trusts(self) -> frozenset[Trust]:
        """The distinct TLS settings of all peers."""
        return frozenset(one.trust for one in (*self._settings.values(), *self._added.values()))
