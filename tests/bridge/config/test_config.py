"""The validation of the whole configuration."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.config import Config, is_loopback


def test_the_defaults_are_safe() -> None:
    """Server name localhost:7676, data in ./data, loopback only, no peers."""
    config = Config()
    assert (config.server_name, config.data_dir, config.listener.port) == ("localhost:7676", Path("data"), 7676)
    assert config.listen_hosts == ["127.0.0.1", "::1"]
    assert [str(network) for network in config.listener.plain_http_from] == ["127.0.0.0/8", "::1/128"]
    assert config.peers == []
    assert config.metrics.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("server_name", "loopback"),
    [
        ("localhost", True),
        ("LOCALHOST:7676", True),
        ("127.0.0.1:80", True),
        ("[::1]", True),
        ("[::1]:7676", True),
        ("kitchen.local", False),
        ("localhost.example.org", False),
        ("10.0.0.1:7676", False),
    ],
)
def test_a_public_name_listens_on_all_addresses(server_name: str, loopback: bool) -> None:
    """A node whose name is a loopback name listens only on loopback."""
    assert is_loopback(server_name) is loopback
    hosts = Config(server_name=server_name).listen_hosts
    assert hosts == (["127.0.0.1", "::1"] if loopback else ["0.0.0.0", "::"])


def test_configured_hosts_replace_the_defaults() -> None:
    """Only the configured addresses are used."""
    assert Config(listener={"hosts": ["192.0.2.1"]}).listen_hosts == ["192.0.2.1"]


@pytest.mark.parametrize(
    "values",
    [
        {"nonsense": 1},
        {"listener": {"nonsense": 1}},
        {"server_name": "not a name"},
        {"listener": {"port": 65536}},
        {"listener": {"certificate": "a.pem"}},
        {"listener": {"private_key": "a.pem"}},
        {"listener": {"header_timeout": 0}},
        {"database": {"url": "mysql://localhost/x"}},
        {"database": {"url": "postgresql://a:secret@localhost/x"}},
        {"database": {"url": "postgresql://localhost/x?user=a&password=secret"}},
        {"database": {"password_file": "x"}},
        {"peers": [{"server_name": "a", "plain": True}]},
        {"peers": [{"server_name": "a", "plain": True, "networks": ["::1"], "client_certificate": "x"}]},
        {"peers": [{"server_name": "a"}, {"server_name": "A"}]},
        {"peers": [{}]},
        {"peers": [{"server_name": "a", "address": "192.168.1.20"}]},
        {"peers": [{"server_name": "a", "address": "a:0"}]},
        {"peers": [{"server_name": "a", "show_certificate": "x"}]},
        {"federation": {"mode": "ajar"}},
        {"federation": {"name_servers": ["192.168.1.1"]}},
        {"media": {"max_upload_size": 0}},
        {"matrix_side": "guest"},
        {"matrix_side": "appservice"},
        {"matrix_side": "appservice", "appservice": {"domain": "their.server"}},
        {"log": {"level": "loud"}},
        {"offices": {"enabled": True}, "agents": [{"id": "a/boss", "command": ["cat"]}]},
    ],
)
def test_invalid_settings_are_refused(values: dict[str, Any]) -> None:
    """Unknown keys, invalid values, incomplete pairs, and secrets outside their files."""
    with pytest.raises(ValidationError):
        Config.model_validate(values)


def test_member_ids_of_offices_are_reserved_only_with_offices() -> None:
    """An agent may have an id like a member's if offices are disabled, and any other id if they are
    enabled."""
    for agent_id, enabled in (("a/boss", False), ("boss", True), ("a/b/c", True)):
        agents = [{"id": agent_id, "command": ["cat"]}]
        assert Config.model_validate({"offices": {"enabled": enabled}, "agents": agents}).agents


def test_paths_are_relative_to_the_file() -> None:
    """`palaver run --config elsewhere/palaver.toml` means the same in every directory."""
    values = {
        "data_dir": "data",
        "listener": {"certificate": "tls/a.pem", "private_key": "/etc/key.pem"},
        "peers": [{"server_name": "kitchen.local", "client_certificate": "peers/kitchen.pem"}],
    }
    config = Config.model_validate(values).relative_to(Path("/srv/palaver"))
    assert config.data_dir == Path("/srv/palaver/data")
    assert config.listener.certificate == Path("/srv/palaver/tls/a.pem")
    assert config.listener.private_key == Path("/etc/key.pem")
    assert config.peers[0].client_certificate == Path("/srv/palaver/peers/kitchen.pem")
    assert config.database.password_file is None
    assert config.appservice.registration == Path("/srv/palaver/registration.yaml")


def test_only_an_appservice_is_attached_to_a_homeserver() -> None:
    """The section [appservice] has no effect while the node is a homeserver itself."""
    section = {"homeserver": "http://127.0.0.1:8008", "domain": "their.server"}
    assert Config().attached_to is None
    assert Config.model_validate({"appservice": section}).attached_to is None
    attached = Config.model_validate({"matrix_side": "appservice", "appservice": section})
    assert attached.attached_to == "their.server"


def test_an_appservice_exchanges_agents_only_with_published_nodes() -> None:
    """The error names the peers with another profile."""
    section = {"homeserver": "http://127.0.0.1:8008", "domain": "their.server"}
    published = {"node_id": "old.test", "profile": "cis-1.1", "url": "http://10.0.0.2:7676"}
    values = {"appservice": section, "agent_federation": {"peers": [published, {"node_id": "file.test"}]}}
    assert Config.model_validate(values).attached_to is None
    with pytest.raises(ValidationError, match=r"file\.test with profile = "):
        Config.model_validate({**values, "matrix_side": "appservice"})
    values["agent_federation"] = {"peers": [published]}
    assert Config.model_validate({**values, "matrix_side": "appservice"}).attached_to == "their.server"
