"""A real Synapse, examined by the peer check."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from federation.http.server.tls import TlsFiles
from federation.peers.check.facts import Finding, Verdict
from federation.peers.check.report import report
from federation.peers.check.run import gather_facts
from tests.federation.nodes import Node, nodes
from tests.support.ports import lasting_port
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = pytest.mark.interop


@pytest.fixture
async def node(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> AsyncIterator[Node]:
    """Over TLS, with a certificate of the Synapses' authority, which it trusts."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        yield await running.start_over_tls()


async def found(node: Node, server: str) -> dict[str, Finding]:
    """Return the most severe finding on each subject."""
    findings = report(await gather_facts(node.homeserver, server))
    gravest: dict[str, Finding] = {}
    for finding in findings:
        known = gravest.get(finding.subject)
        if known is None or finding.verdict > known.verdict or known.verdict is Verdict.FINE:
            gravest[finding.subject] = finding
    return gravest


def faults(findings: dict[str, Finding]) -> list[Finding]:
    return [finding for finding in findings.values() if finding.verdict is Verdict.FAULT]


async def test_a_healthy_synapse(node: Node, synapse: Synapse) -> None:
    """It is found, reached and authenticated; it reports its version, and accepts the node's signatures."""
    findings = await found(node, synapse.server_name)
    assert faults(findings) == []
    assert "validly signed" in findings["keys"].text
    assert findings["software"].text.startswith("It is Synapse 1.")
    assert findings["clock"].verdict is Verdict.FINE
    assert findings["signature"].text == f"It accepts the signature of {node.name}."


async def test_this_node_as_others_see_it(node: Node) -> None:
    """A Synapse on this machine can reach it; other servers get what its name resolves to for them."""
    findings = await found(node, node.name)
    assert faults(findings) == []
    assert "points every machine to itself" in findings["name"].text


async def test_a_synapse_with_an_unknown_authority(
    postgres_server: Server, migrated_template: str, synapse: Synapse
) -> None:
    """Its certificate is shown but not accepted, and no request is made."""
    async with nodes(postgres_server, migrated_template) as running:
        [stranger] = await running.start("stranger.test")
        findings = await found(stranger, synapse.server_name)
    assert faults(findings)
    assert all("by Authority of the tests" in finding.text for finding in faults(findings))
    assert all("full chain" in finding.advice for finding in faults(findings))
    assert "keys" not in findings


async def test_the_wrong_port(node: Node) -> None:
    """Nothing listens there."""
    [*wrong] = faults(await found(node, f"localhost:{lasting_port()}"))
    assert wrong
    assert all("connection refused" in finding.text for finding in wrong)


async def test_a_name_that_does_not_resolve(node: Node) -> None:
    """RFC 6761, 6.4: no name below `invalid` exists."""
    [finding] = faults(await found(node, "nowhere.invalid:8448"))
    assert finding.text == "nowhere.invalid has no address: no A record, no AAAA record."


async def test_a_server_with_keys_of_another_name(node: Node, synapse: Synapse) -> None:
    """Its certificate is valid for the address; its keys are those of its own name."""
    findings = await found(node, f"127.0.0.1:{synapse.port}")
    [finding] = faults(findings)
    assert (finding.subject, f"the keys of {synapse.server_name}." in finding.text) == ("keys", True)


async def test_a_synapse_that_does_not_admit_the_node(node: Node, make_synapse: SynapseFactory) -> None:
    """All else is well."""
    closed = await make_synapse(settings={"federation_domain_whitelist": ["elsewhere.test"]})
    [finding] = faults(await found(node, closed.server_name))
    assert (finding.subject, "federation_domain_whitelist" in finding.advice) == ("signature", True)
