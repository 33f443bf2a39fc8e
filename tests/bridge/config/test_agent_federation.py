"""The section [agent_federation]."""

import tomllib
from ipaddress import ip_network
from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.agent_federation import AgentFederation, AgentPeer, access, homeserver_address, task_limits
from bridge.connectors.cis.settings import cis_settings
from bridge.peers.peer import PeerProfile

# "Configuration file example" of the specification, word for word.
SPECIFIED = """
enabled = true
heartbeat_interval_secs = 30
agent_timeout_secs = 120
default_task_timeout_secs = 300

[room]
namespace = "default"
federate = true

[[peers]]
node_id = "kitchen.local"
url = "http://kitchen.local:7676"
trusted = true
"""
KEY = "ab" * 32


def test_the_example_of_the_specification_is_valid() -> None:
    """Its keys have the specified names, and each of them has an effect."""
    read = AgentFederation.model_validate(tomllib.loads(SPECIFIED))
    settings = cis_settings("den.local", read)
    assert (settings.heartbeat_ms, settings.namespaces, settings.federate) == (30_000, ("default",), True)
    kitchen = settings.access("kitchen.local")
    assert kitchen is not None
    assert (kitchen.is_homeserver, kitchen.url) == (True, "http://kitchen.local:7676")
    assert task_limits(read).default_timeout_ms == 300_000
    assert [homeserver_address(one.url) for one in read.peers] == ["kitchen.local:7676"]


def test_a_disabled_federation_or_peer_has_no_access() -> None:
    """Federation as a whole, its rooms, or a single peer can be disabled."""
    read = tomllib.loads(SPECIFIED)
    for changed in (
        {**read, "enabled": False},
        {**read, "room": {"federate": False}},
        {**read, "peers": [{"node_id": "kitchen.local", "trusted": False}]},
    ):
        settings = cis_settings("den.local", AgentFederation.model_validate(changed))
        assert settings.access("kitchen.local") is None
        assert settings.peer("kitchen.local") is not None


def test_the_first_namespace_is_the_default() -> None:
    """Agents and peers without configured namespaces are in the first one."""
    read = AgentFederation.model_validate(
        {"room": {"namespace": "main", "namespaces": ["team", "main"]}, "peers": [{"node_id": "a.local"}]}
    )
    assert read.namespaces == ("main", "team")
    assert access(read.peers[0], "main").peer.namespaces == {"main"}


def test_the_network_of_a_published_node_defaults_to_its_url() -> None:
    """A node with profile "cis-1.1" sends from the address in its url unless networks are configured."""
    peer = AgentPeer.model_validate(
        {"node_id": "old.local", "profile": "cis-1.1", "url": "http://192.168.1.20:7676", "signing_key": KEY}
    )
    made = access(peer, "default")
    assert made.peer.profile is PeerProfile.CIS_1_1
    assert made.networks == (ip_network("192.168.1.20/32"),)
    assert made.peer.public_key == bytes.fromhex(KEY)
    assert peer.is_plain


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"node_id": "not a name"}, "not a server name"),
        ({"node_id": "a.local", "url": "kitchen.local"}, "not the URL of a node"),
        ({"node_id": "a.local", "url": "ftp://kitchen.local"}, "not the URL of a node"),
        ({"node_id": "a.local", "url": "http://[::1"}, "not the URL of a node"),
        ({"node_id": "a.local", "url": "http://a:99999"}, "not the URL of a node"),
        ({"node_id": "a.local", "url": "https://me:secret@a.local"}, "remove the rest"),
        ({"node_id": "a.local", "url": "https://a.local/path"}, "remove the rest"),
        ({"node_id": "a.local", "profile": "cis-1.1"}, "needs url"),
        ({"node_id": "a.local", "profile": "cis-1.1", "url": "http://a.local"}, "needs networks"),
        ({"node_id": "a.local", "signing_key": KEY}, "a homeserver signs"),
        ({"node_id": "a.local", "namespaces": ["Team"]}, "not a namespace"),
        ({"node_id": "a.local", "namespaces": []}, "at least 1"),
        ({"node_id": "a", "profile": "cis-1.1", "url": "http://1.2.3.4", "signing_key": "12"}, "64 hexadecimal digits"),
        (
            {"node_id": "a", "profile": "cis-1.1", "url": "http://1.2.3.4", "require_signature": True},
            "needs signing_key",
        ),
    ],
)
def test_an_invalid_peer_is_refused_with_advice(wrong: dict[str, Any], advice: str) -> None:
    """The error says what to change."""
    with pytest.raises(ValidationError, match=advice):
        AgentPeer.model_validate(wrong)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"peers": [{"node_id": "a.local"}, {"node_id": "A.local"}]}, "more than once"),
        ({"heartbeat_interval_secs": 30, "agent_timeout_secs": 45}, "two heartbeats"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, Any], advice: str) -> None:
    """Duplicate peers, and a timeout shorter than two heartbeats."""
    with pytest.raises(ValidationError, match=advice):
        AgentFederation.model_validate(wrong)


def test_the_address_of_a_homeserver_is_taken_from_its_url() -> None:
    """The default port is 7676, and the scheme has no effect."""
    assert homeserver_address(None) is None
    assert homeserver_address("https://kitchen.local") == "kitchen.local:7676"
    assert homeserver_address("http://[fd00::1]:80") == "[fd00::1]:80"


def test_limits_are_converted() -> None:
    """The burst is ten seconds' worth of the rate, and at least one."""
    limits = task_limits(
        AgentFederation.model_validate(
            {"limits": {"requests_per_second": 2, "requests_per_second_of_peer": 0.01, "tasks_of_peer": 3}}
        )
    )
    assert (limits.agent_rate.per_second, limits.agent_rate.burst) == (2, 20)
    assert (limits.node_rate.per_second, limits.node_rate.burst) == (0.01, 1)
    assert limits.max_live_per_node == 3
