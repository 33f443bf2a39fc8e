"""The operator's commands for peers."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bridge.peers.commands import MAX_TEXTS, commands
from bridge.peers.service import AgentPeers
from federation.matrix.globs import Glob
from storage.errors import LocalError
from tests.bridge.connectors.cis.peered_nodes import PeeredNodes, peered_nodes
from tests.support.loopback_server import Certificates
from tests.support.postgres import Server
from tests.support.tls import Authority

NEW = {
    "node_id": "new.test",
    "url": None,
    "trusted": True,
    "profile": "matrix",
    "from": "added",
    "overridden": False,
    "namespaces": None,
    "networks": [],
    "has_authority": False,
    "has_signing_key": False,
    "require_signature": False,
}
FILE = {**NEW, "node_id": "file.test", "from": "configuration"}


@dataclass
class Operator:
    nodes: PeeredNodes
    peers: AgentPeers

    async def ask(self, command: str, **given: Any) -> Mapping[str, Any]:
        homeserver = self.nodes._made["here.test"].node.homeserver
        answer = await commands(self.peers, homeserver)[command](given)
        # Responses have to be valid JSON.
        settings: Mapping[str, Any] = json.loads(json.dumps(dict(answer)))
        return settings


@pytest.fixture
async def operator(postgres_server: Server, migrated_template: str, tmp_path: Path) -> AsyncIterator[Operator]:
    """Of `here.test`, whose configuration names `file.test`."""
    async with peered_nodes(postgres_server, migrated_template, Certificates(tmp_path)) as nodes:
        nodes.in_file["here.test"] = [{"node_id": "file.test"}]
        await nodes.strangers("here.test")
        yield Operator(nodes, nodes.peers["here.test"])


async def test_add_and_remove(operator: Operator) -> None:
    """Both are idempotent. The output has no certificates and keys."""
    authority = Authority().pem.decode()
    settings = {"url": "https://10.0.0.9:1", "namespaces": ["default", "team-a"], "authority": authority}
    expected = {**NEW, "url": "https://10.0.0.9:1", "namespaces": ["default", "team-a"], "has_authority": True}
    for changed in (True, False):
        answer = await operator.ask("peers-add", node_id="new.test", **settings)
        assert answer == {**expected, "changed": changed, "is_refused": False}
    assert (await operator.ask("peers-add", node_id="new.test", untrusted=True)) == {
        **NEW,
        "trusted": False,
        "changed": True,
        "is_refused": False,
    }
    for changed in (True, False):
        answer = await operator.ask("peers-remove", node_id="new.test")
        assert answer == {"node_id": "new.test", "changed": changed, "peer": None}


async def test_add_published_node(operator: Operator) -> None:
    """Its networks default to the addresses of its URL."""
    old = {"node_id": "old.test", "profile": "cis-1.1", "url": "http://10.0.0.3:7676"}
    assert (await operator.ask("peers-add", **old))["networks"] == ["10.0.0.3/32"]
    more = {"networks": ["10.0.0.0/24"], "signing_key": "ab" * 32, "require_signature": True}
    answer = await operator.ask("peers-add", **old, **more)
    assert (answer["networks"], answer["has_signing_key"], answer["require_signature"]) == (["10.0.0.0/24"], True, True)


async def test_trust(operator: Operator) -> None:
    """It is all that can be changed of a configured peer; changed back, the file applies again."""
    answer = await operator.ask("peers-trust", node_id="FILE.test", no=True)
    assert answer == {**FILE, "trusted": False, "overridden": True, "changed": True, "is_refused": False}
    answer = await operator.ask("peers-remove", node_id="file.test")
    assert answer == {"node_id": "file.test", "changed": True, "peer": FILE}
    assert (await operator.ask("peers-trust", node_id="file.test"))["changed"] is False


async def test_peer_refused_by_the_policy(operator: Operator) -> None:
    """It is stored and reported as refused; published nodes are not subject to the policy."""
    settings = operator.nodes._made["here.test"].node.homeserver.settings
    object.__setattr__(settings, "policy", replace(settings.policy, refused=(Glob("*.bad.test"),)))
    for words, refused in (({}, True), ({"untrusted": True}, False)):
        assert (await operator.ask("peers-add", node_id="a.bad.test", **words))["is_refused"] is refused
    assert (await operator.ask("peers-trust", node_id="a.bad.test"))["is_refused"] is True
    old = {"profile": "cis-1.1", "url": "http://10.0.0.3:7676"}
    assert (await operator.ask("peers-add", node_id="b.bad.test", **old))["is_refused"] is False


async def test_list(operator: Operator) -> None:
    """With the origin of each; homeservers are also in the list of servers."""
    await operator.ask("peers-add", node_id="new.test")
    await operator.ask("peers-add", node_id="bad.test", untrusted=True)
    answer = await operator.ask("peers-list")
    assert answer["agent_peers"] == [{**NEW, "node_id": "bad.test", "trusted": False}, FILE, NEW]
    servers = {one["server"]: (one["configured"], one["exchanges_agents"]) for one in answer["peers"]}
    assert servers == {"file.test": (False, True), "new.test": (False, True)}
    found = await operator.ask("peers-list", search="FILE")
    assert (found["agent_peers"], len(found["peers"])) == ([FILE], 1)


@pytest.mark.parametrize(
    ("command", "given", "sentence"),
    [
        ("peers-add", {}, "needs node_id"),
        ("peers-add", {"node_id": "a b"}, "is not a server name"),
        ("peers-add", {"node_id": 5}, "is not a"),
        ("peers-add", {"node_id": "x" * 5_000}, "is not a"),
        ("peers-add", {"node_id": "here.test"}, "this node itself"),
        ("peers-add", {"node_id": "file.test"}, "belongs to the file"),
        ("peers-add", {"node_id": "n.test", "url": "http://n.test/\0"}, "is not a"),
        ("peers-add", {"node_id": "n.test", "url": "n.test:7676"}, "is not the URL"),
        ("peers-add", {"node_id": "n.test", "profile": "smtp"}, "profile: input should be"),
        ("peers-add", {"node_id": "n.test", "namespaces": "default"}, "is not a list"),
        ("peers-add", {"node_id": "n.test", "namespaces": ["n"] * (MAX_TEXTS + 1)}, "is not a list"),
        ("peers-add", {"node_id": "n.test", "namespaces": [["n"]]}, "is not a"),
        ("peers-add", {"node_id": "n.test", "networks": [7]}, "is not a"),
        ("peers-add", {"node_id": "n.test", "authority": 5}, "is not a"),
        ("peers-add", {"node_id": "n.test", "authority": "x"}, "contains no certificate"),
        ("peers-add", {"node_id": "n.test", "authority": "x" * 100_000}, "more than 64 KiB"),
        ("peers-remove", {"node_id": "file.test"}, "belongs to the file"),
        ("peers-remove", {}, "needs node_id"),
        ("peers-trust", {"node_id": "n.test"}, "is not a peer"),
        ("peers-trust", {"node_id": ""}, "needs node_id"),
    ],
)
async def test_refusals(operator: Operator, command: str, given: Mapping[str, Any], sentence: str) -> None:
    """With advice, and without any effect."""
    with pytest.raises(LocalError, match=sentence) as refused:
        await operator.ask(command, **given)
    assert refused.value.advice.endswith(".")
    assert [one.node_id for one in operator.peers.snapshot] == ["file.test"]
