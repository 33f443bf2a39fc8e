"""Converts the configuration to the settings objects of the listener, the database and the homeserver."""

from bridge.config.config import Config
from bridge.config.federation import Peer
from bridge.config.files import read_secret
from federation.client.peer_settings import CertificateFiles, PeerSettings
from federation.homeserver import HomeserverSettings
from federation.http.server.capacity import Limits
from federation.http.server.development_certificate import ensure
from federation.http.server.listener import Bind, ListenerSettings
from federation.http.server.tls import TlsFiles
from federation.matrix.networks import LOOPBACK, NOT_PUBLIC
from federation.media.media import DAY_MS, MediaSettings
from federation.peers.limits import PeerLimits
from federation.peers.policy import policy
from storage.connect import DatabaseAddress


def listener_settings(config: Config) -> ListenerSettings:
    listener = config.listener
    peers = [network for peer in config.peers if peer.plain for network in peer.networks]
    return ListenerSettings(
        # A default address that this machine does not have is skipped; a configured one is an error.
        binds=[Bind(host, optional=listener.hosts is None) for host in config.listen_hosts],
        port=listener.port,
        plain_networks=(*listener.plain_http_from, *peers),
        limits=limits_of(config),
    )


def limits_of(config: Config) -> Limits:
    listener = config.listener
    return Limits(
        max_head=listener.max_header_size,
        max_body=listener.max_body_size,
        max_connections=listener.max_connections,
        max_connections_per_address=listener.max_connections_per_address,
        first_byte_timeout=listener.header_timeout,
        handshake_timeout=listener.header_timeout,
        head_timeout=listener.header_timeout,
        body_timeout=listener.body_timeout,
        idle_timeout=listener.idle_timeout,
    )


def tls_files(config: Config) -> TlsFiles:
    """The configured certificate, or the development certificate, which is generated if it does not exist."""
    listener = config.listener
    certificate, private_key = listener.certificate, listener.private_key
    if certificate is None or private_key is None:
        made = ensure(config.data_dir / "tls", config.server_name)
        certificate, private_key = made.certificate, made.private_key
    pinned = {peer.server_name: peer.client_certificate for peer in config.peers if peer.client_certificate is not None}
    return TlsFiles(certificate, private_key, pinned)


def external_database(config: Config) -> DatabaseAddress | None:
    """The configured Postgres with its password, or None if the node runs the embedded one."""
    if config.database.url is None:
        return None
    file = config.database.password_file
    password = read_secret(file, "database password") if file is not None else None
    return DatabaseAddress.from_url(config.database.url, password)


def homeserver_settings(config: Config, version: str) -> HomeserverSettings:
    assert config.attached_to is None, "an application service is not a homeserver"
    federation = config.federation
    return HomeserverSettings(
        config.server_name,
        version,
        config.data_dir / "media",
        peers={peer.server_name: _peer_settings(peer) for peer in config.peers},
        policy=policy(
            [peer.server_name for peer in config.peers], is_open=federation.mode == "open", refused=federation.refuse
        ),
        authorities=federation.authorities,
        blocked=NOT_PUBLIC if federation.blocked_networks is None else tuple(federation.blocked_networks),
        name_servers=tuple(_host_and_port(server) for server in federation.name_servers),
        notaries=tuple(federation.notaries),
        media=_media_settings(config),
        shows_public_rooms=federation.public_rooms,
        delegated_name=federation.delegate,
        peer_limits=PeerLimits(shared_addresses=(*LOOPBACK, *federation.proxies)),
        audit_days=federation.audit_days,
    )


def _peer_settings(peer: Peer) -> PeerSettings:
    shown = None
    if peer.show_certificate is not None and peer.show_private_key is not None:
        shown = CertificateFiles(peer.show_certificate, peer.show_private_key)
    return PeerSettings(address=peer.address, client_certificate=shown, authority=peer.authority)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _media_settings(config: Config) -> MediaSettings:
    media = config.media
    return MediaSettings(
        max_upload_size=media.max_upload_size,
        max_remote_size=media.max_remote_size,
        remote_cache_size=media.remote_cache_size,
        remote_cache_age=media.remote_cache_days * DAY_MS,
        max_image_pixels=media.max_image_pixels,
        reserve=config.database.minimum_free_space,
    )
