"""Addresses of brokers."""

import pytest

from bridge.connectors.offices.cluster.broker_address import BrokerAddress, InvalidBrokerAddress, parse_broker_address


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("redis://127.0.0.1:6379/0", "redis"),
        ("redis://redis.example.org", "redis"),
        ("redis://palaver@[fd00::20]:6379/15", "redis"),
        ("tcp/127.0.0.1:7447", "zenoh"),
        ("tcp/zenoh.example.org:7447", "zenoh"),
        ("tcp/[::1]:7447", "zenoh"),
    ],
)
def test_valid_addresses(text: str, kind: str) -> None:
    assert parse_broker_address(text) == BrokerAddress(kind, text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "", "redis", "redis://", "redis:///0", "redis://host:6379/name", "redis://host/0?decode=yes",
        "rediss://host:6379", "unix:///run/redis.sock", "tcp/host", "tcp/:7447", "udp/host:7447",
        "tcp://host:7447", "tcp/host:7447#iface=eth0", "tcp/host:7447\n", "redis://ho st:1",
    ],
)  # fmt: skip
def test_invalid_addresses(text: str) -> None:
    """The error shows the valid forms."""
    wrong = parse_broker_address(text)
    assert isinstance(wrong, InvalidBrokerAddress)
    assert "write redis://HOST:PORT/NUMBER" in wrong.reason


@pytest.mark.parametrize("text", ["redis://host:0/0", "tcp/host:65536", "tcp/host:99999"])
def test_invalid_ports(text: str) -> None:
    wrong = parse_broker_address(text)
    assert isinstance(wrong, InvalidBrokerAddress)
    assert "from 1 to 65535" in wrong.reason


@pytest.mark.parametrize(
    "text",
    [
        "redis://:hunter2@host:6379/0", "redis://user:hunter2@host/0", "redis://host?password=hunter2",
        "rediss://user:hunt/er2@host/0",
    ],
)  # fmt: skip
def test_an_address_must_not_contain_a_password(text: str) -> None:
    """The error does not repeat it."""
    wrong = parse_broker_address(text)
    assert isinstance(wrong, InvalidBrokerAddress)
    assert "broker_password_file" in wrong.reason
    assert "hunt" not in wrong.reason


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(BrokerAddress("redis", "redis://host:6379/0", "hunter2"))
