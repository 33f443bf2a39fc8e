"""The configuration of a Synapse that federates on loopback, over TLS, with verification on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.ports import loopback_addresses

REGISTRATION_SECRET = "the tests may register administrators"

NO_LIMIT = {"per_second": 1_000_000, "burst_count": 1_000_000}

# Synapse's defaults are for people and would be what a test measures.
LIMITS: dict[str, Any] = {
    "rc_message": NO_LIMIT,
    "rc_registration": NO_LIMIT,
    "rc_registration_token_validity": NO_LIMIT,
    "rc_login": {"address": NO_LIMIT, "account": NO_LIMIT, "failed_attempts": NO_LIMIT},
    "rc_admin_redaction": NO_LIMIT,
    "rc_joins": {"local": NO_LIMIT, "remote": NO_LIMIT},
    "rc_joins_per_room": NO_LIMIT,
    "rc_key_requests": NO_LIMIT,
    "rc_invites": {"per_room": NO_LIMIT, "per_user": NO_LIMIT, "per_issuer": NO_LIMIT},
    "rc_third_party_invite": NO_LIMIT,
    "rc_media_create": NO_LIMIT,
    "rc_presence": {"per_user": NO_LIMIT},
    "rc_delayed_event_mgmt": NO_LIMIT,
    "rc_room_creation": NO_LIMIT,
    "rc_reports": NO_LIMIT,
    "rc_user_directory": NO_LIMIT,
    "rc_profile": NO_LIMIT,
    "remote_media_download_per_second": "1000M",
    "rc_federation": {
        "window_size": 1000,
        "sleep_limit": 1_000_000,
        "sleep_delay": 1,
        "reject_limit": 1_000_000,
        "concurrent": 100,
    },
    "federation_rr_transactions_per_room_per_second": 1_000_000,
}


def homeserver(
    *,
    server_name: str,
    port: int,
    directory: Path,
    trusted: Sequence[Path],
    certificate: Path,
    private_key: Path,
    database: Mapping[str, Any],
    appservices: Sequence[Path] = (),
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the whole configuration; `settings` replaces entries, merged by name within a section."""
    base: dict[str, Any] = {
        "server_name": server_name,
        "public_baseurl": f"https://{server_name}/",
        "report_stats": False,
        "pid_file": str(directory / "homeserver.pid"),
        "log_config": str(directory / "log.yaml"),
        "signing_key_path": str(directory / "signing.key"),
        "media_store_path": str(directory / "media"),
        "macaroon_secret_key": "nobody outside this machine sees it",
        "form_secret": "nobody outside this machine sees it either",
        "registration_shared_secret": REGISTRATION_SECRET,
        "enable_registration": True,
        "enable_registration_without_verification": True,
        # A password costs a quarter of a second with the default.
        "bcrypt_rounds": 4,
        "enable_metrics": True,
        # It rests between two changes of its schema, of which there are fifty after a first start.
        "background_updates": {"sleep_enabled": False},
        "dynamic_thumbnails": True,
        "filter_timeline_limit": -1,
        "federation_verify_certificates": True,
        "federation_custom_ca_list": [str(path) for path in trusted],
        # The default blocks loopback, with the error "DNS lookup failed".
        "ip_range_blacklist": [],
        # The default asks matrix.org.
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "allow_public_rooms_over_federation": True,
        "room_list_publication_rules": [{"action": "allow"}],
        "tls_certificate_path": str(certificate),
        "tls_private_key_path": str(private_key),
        "database": dict(database),
        "app_service_config_files": [str(path) for path in appservices],
        # A transaction without a response is sent again twice a second, ten times; after that Synapse waits
        # for the peer's next request, or a minute. The defaults leave a peer alone for ten minutes.
        "federation": {
            "client_timeout": "30s",
            "max_short_retries": 1,
            "max_short_retry_delay": 500,
            "max_long_retries": 10,
            "max_long_retry_delay": 500,
            "destination_min_retry_interval": "1s",
            "destination_retry_multiplier": 1,
            "destination_max_retry_interval": "1s",
        },
        "listeners": [
            {
                "port": port,
                "type": "http",
                "tls": True,
                "bind_addresses": list(loopback_addresses()),
                "resources": [{"names": ["client", "federation", "keys", "media", "metrics"]}],
            }
        ],
        **LIMITS,
    }
    for name, value in (settings or {}).items():
        both = isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
        base[name] = {**base[name], **value} if both else value
    return base


def logging(log: Path, requests: Path, level: str) -> dict[str, Any]:
    """Return the logging configuration: one file for everything, one for this Synapse's federation
    requests."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)s %(name)s %(request)s: %(message)s"},
            "message": {"format": "%(message)s"},
        },
        "handlers": {
            "log": {"class": "logging.FileHandler", "formatter": "line", "filename": str(log), "level": level},
            "requests": {"class": "logging.FileHandler", "formatter": "message", "filename": str(requests)},
        },
        "root": {"level": level, "handlers": ["log"]},
        "loggers": {
            # Only at this level does it say that it begins a request; one without an answer counts too.
            "synapse.http.matrixfederationclient": {"level": "DEBUG", "handlers": ["requests"]}
        },
    }
