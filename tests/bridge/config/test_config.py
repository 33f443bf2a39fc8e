"""What a configuration may hold."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.config import Config, is_loopback


def test_with_nothing_at_all_the_node_is_safe() -> None:
    """Server name localhost:7676, data in ./data, loopback only, no peers."""
    config = Config()
    assert (config.server_name, config.data_dir, config.listener.port) == (
        "localhost:7676",
        Path("data"),
        7676,
    )
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
    """A name that others can resolve is there to be reached; any other stays on this machine."""
    assert is_loopback(server_name) is loopback
    hosts = Config(server_name=server_name).listen_hosts
    assert hosts == (["127.0.0.1", "::1"] if loopback else ["0.0.0.0", "::"])


def test_named_hosts_win() -> None:
    """Whoever names the addresses gets those and no other."""
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
def test_what_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    """Unknown keys, impossible values, halves of pairs, secrets outside their files."""
    with pytest.raises(ValidationError):
        Config.model_validate(values)


def test_where_there_are_no_offices_nobody_is_called_like_their_members() -> None:
    """Nor is, where there are some, whoever is called otherwise."""
    for agent_id, enabled in (("a/boss", False), ("boss", True), ("a/b/c", True)):
        agents = [{"id": agent_id, "command": ["cat"]}]
        assert Config.model_validate({"offices": {"enabled": enabled}, "agents": agents}).agents


def test_paths_start_at_the_file() -> None:
    """`palaver run --config elsewhere/palaver.toml` means the same from every directory."""
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


def test_a_guest_has_a_homeserver() -> None:
    """Whose section may stand there while the node is a homeserver itself."""
    section = {"homeserver": "http://127.0.0.1:8008", "domain": "their.server"}
    assert Config().guest_of is None
    assert Config.model_validate({"appservice": section}).guest_of is None
    guest = Config.model_validate({"matrix_side": "appservice", "appservice": section})
    assert guest.guest_of == "their.server"


def test_a_guest_shares_no_rooms_with_other_nodes() -> None:
    """Peers have to be of those that take single events; the mistake says how to write them."""
    section = {"homeserver": "http://127.0.0.1:8008", "domain": "their.server"}
    published = {"node_id": "old.test", "profile": "cis-1.1", "url": "http://10.0.0.2:7676"}
    values = {"appservice": section, "agent_federation": {"peers": [published, {"node_id": "file.test"}]}}
    assert Config.model_validate(values).guest_of is None
    with pytest.raises(ValidationError, match=r"file\.test with profile = "):
        Config.model_validate({**values, "matrix_side": "appservice"})
    values["agent_federation"] = {"peers": [published]}
    assert Config.model_validate({**values, "matrix_side": "appservice"}).guest_of == "their.server"
