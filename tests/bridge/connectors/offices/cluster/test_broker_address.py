"""Where a broker is."""

import pytest

from bridge.connectors.offices.cluster.links import BrokerAddress, NoBroker, broker_address


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("redis://127.0.0.1:6379/0", "redis"),
        ("redis://redis.example.org", "redis"),
        ("redis://palaver@[fd00::20]:6379/15", "redis"),
        ("tcp/127.0.0.1:7447", "zenoh"),
        ("tcp/zenoh.example.org:7447", "zenoh"),
        ("tcp/[::1]:7447", "zenoh"),
    ],
)
def test_what_is_one(said: str, kind: str) -> None:
    assert broker_address(said) == BrokerAddress(kind, said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    [
        "", "redis", "redis://", "redis:///0", "redis://host:6379/name", "redis://host/0?decode=yes",
        "rediss://host:6379", "unix:///run/redis.sock", "tcp/host", "tcp/:7447", "udp/host:7447",
        "tcp://host:7447", "tcp/host:7447#iface=eth0", "tcp/host:7447\n", "redis://ho st:1",
    ],
)  # fmt: skip
def test_what_is_none(said: str) -> None:
    """It says what one looks like."""
    wrong = broker_address(said)
    assert isinstance(wrong, NoBroker)
    assert "write redis://HOST:PORT/NUMBER" in wrong.sentence


@pytest.mark.parametrize("said", ["redis://host:0/0", "tcp/host:65536", "tcp/host:99999"])
def test_ports_that_there_are_not(said: str) -> None:
    wrong = broker_address(said)
    assert isinstance(wrong, NoBroker)
    assert "from 1 to 65535" in wrong.sentence


@pytest.mark.parametrize(
    "said",
    [
        "redis://:hunter2@host:6379/0", "redis://user:hunter2@host/0", "redis://host?password=hunter2",
        "rediss://user:hunt/er2@host/0",
    ],
)  # fmt: skip
def test_a_password_has_a_file_of_its_own(said: str) -> None:
    """It is not said again."""
    wrong = broker_address(said)
    assert isinstance(wrong, NoBroker)
    assert "broker_password_file" in wrong.sentence
    assert "hunt" not in wrong.sentence


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(BrokerAddress("redis", "redis://host:6379/0", "hunter2"))
