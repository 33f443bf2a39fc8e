"""The settings of the listener, the database and the homeserver."""

from ipaddress import ip_address, ip_network
from pathlib import Path

from bridge.config.config import Config
from bridge.config.settings import external_database, homeserver_settings, limits_of, listener_settings, tls_files
from federation.client.peer_settings import CertificateFiles, PeerSettings
from federation.media.media import DAY_MS


def _config(**values: object) -> Config:
    return Config.model_validate(values)


def test_default_addresses_are_optional_and_configured_ones_are_not() -> None:
    """A machine without IPv6 starts with the defaults. A misspelt address is an error."""
    assert all(bind.optional for bind in listener_settings(_config()).binds)
    named = listener_settings(_config(listener={"hosts": ["192.0.2.1"]}))
    assert [(bind.host, bind.optional) for bind in named.binds] == [("192.0.2.1", False)]


def test_networks_of_plain_peers_may_send_plain_http() -> None:
    """Only those of peers with plain = true."""
    config = _config(
        peers=[
            {"server_name": "a", "plain": True, "networks": ["192.0.2.1/32"]},
            {"server_name": "b", "networks": ["192.0.2.2/32"]},
        ]
    )
    shown = [str(network) for network in listener_settings(config).plain_networks]
    assert shown == ["127.0.0.0/8", "::1/128", "192.0.2.1/32"]


def test_every_limit_is_converted() -> None:
    """No setting is ignored."""
    limits = limits_of(
        _config(
            listener={
                "max_connections": 11,
                "max_connections_per_address": 12,
                "max_header_size": 2048,
                "max_body_size": 4096,
                "header_timeout": 1,
                "body_timeout": 2,
                "idle_timeout": 3,
            }
        )
    )
    assert (limits.max_connections, limits.max_connections_per_address) == (11, 12)
    assert (limits.max_head, limits.max_body) == (2048, 4096)
    assert (limits.first_byte_timeout, limits.handshake_timeout, limits.head_timeout) == (1, 1, 1)
    assert (limits.body_timeout, limits.idle_timeout) == (2, 3)


def test_without_a_certificate_a_development_certificate_is_generated(tmp_path: Path) -> None:
    """In the data directory, and only once."""
    files = tls_files(_config(data_dir=tmp_path))
    assert files.certificate == tmp_path / "tls" / "certificate.pem"
    before = files.certificate.read_bytes()
    assert tls_files(_config(data_dir=tmp_path)).certificate.read_bytes() == before


def test_the_configured_certificates_are_used(tmp_path: Path) -> None:
    """No development certificate is generated then."""
    config = _config(
        data_dir=tmp_path,
        listener={"certificate": "a.pem", "private_key": "b.pem"},
        peers=[{"server_name": "kitchen.local", "client_certificate": "k.pem"}, {"server_name": "other"}],
    )
    files = tls_files(config)
    assert (files.certificate, files.private_key) == (Path("a.pem"), Path("b.pem"))
    assert files.client_certificates == {"kitchen.local": Path("k.pem")}
    assert list(tmp_path.iterdir()) == []


def test_the_database_password_is_read_from_its_file(tmp_path: Path) -> None:
    """It is not in the address's repr."""
    (tmp_path / "password").write_text("hunter2\n")
    config = _config(database={"url": "postgresql://palaver@db/palaver", "password_file": tmp_path / "password"})
    address = external_database(config)
    assert address is not None
    assert address.password == "hunter2"
    assert "hunter2" not in repr(address)
    assert external_database(_config()) is None


def test_by_default_a_node_federates_with_no_other() -> None:
    """Federation is closed, and private networks are blocked for other servers' names."""
    settings = homeserver_settings(_config(), "1")
    assert not settings.policy.admits("matrix.org")
    assert any(ip_address("192.168.1.1") in network for network in settings.blocked)


def test_every_federation_setting_is_converted() -> None:
    """No setting is ignored."""
    settings = homeserver_settings(
        _config(
            federation={
                "mode": "open",
                "refuse": ["*.evil.example"],
                "authorities": "/ca.pem",
                "blocked_networks": ["10.0.0.0/8"],
                "name_servers": ["[fd00::1]:53", "192.0.2.1:5353"],
                "notaries": ["notary.example"],
                "delegate": "matrix.kitchen.local:443",
                "public_rooms": False,
                "proxies": ["192.0.2.9/32"],
                "audit_days": 7,
            },
            peers=[
                {
                    "server_name": "kitchen.local",
                    "address": "192.0.2.7:7676",
                    "authority": "/kitchen.pem",
                    "show_certificate": "/a.pem",
                    "show_private_key": "/a.key",
                }
            ],
        ),
        "1",
    )
    assert settings.policy.admits("matrix.org")
    assert not settings.policy.admits("a.evil.example")
    assert settings.authorities == Path("/ca.pem")
    assert settings.blocked == (ip_network("10.0.0.0/8"),)
    assert settings.name_servers == (("fd00::1", 53), ("192.0.2.1", 5353))
    assert settings.notaries == ("notary.example",)
    assert settings.delegated_name == "matrix.kitchen.local:443"
    assert not settings.shows_public_rooms
    assert ip_network("192.0.2.9/32") in settings.peer_limits.shared_addresses
    assert settings.audit_days == 7
    shown = CertificateFiles(Path("/a.pem"), Path("/a.key"))
    assert settings.peers == {
        "kitchen.local": PeerSettings(
            address="192.0.2.7:7676", client_certificate=shown, authority=Path("/kitchen.pem")
        )
    }


def test_every_media_setting_is_converted(tmp_path: Path) -> None:
    """Files are stored in the data directory, and a reserve of free space is left for Postgres."""
    settings = homeserver_settings(
        _config(
            data_dir=tmp_path,
            database={"minimum_free_space": 5},
            media={
                "max_upload_size": 1,
                "max_remote_size": 2,
                "remote_cache_size": 3,
                "remote_cache_days": 4,
                "max_image_pixels": 6,
            },
        ),
        "1",
    )
    assert settings.media_directory == tmp_path / "media"
    media = settings.media
    assert (media.max_upload_size, media.max_remote_size, media.remote_cache_size) == (1, 2, 3)
    assert (media.remote_cache_age, media.max_image_pixels, media.reserve) == (4 * DAY_MS, 6, 5)
