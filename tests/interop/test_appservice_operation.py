"""A node attached to a real Synapse, as its operator sees it: start, operation and outages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.appservice_node import NODE_ID, appservice_company
from tests.interop.staffed_node import TIMEOUT, Company, answers, in_state
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("appservice operation")]


@pytest.fixture(scope="module")
async def here(palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Company]:
    """One node and one Synapse. A test that stops one of them starts it again."""
    factory = SynapseFactory(tmp_path_factory.mktemp("synapses"), authority)
    try:
        synapse = await factory(start=False)
        async with appservice_company(palaver, authority, synapse) as made:
            yield made
    finally:
        await factory.clean_up()


async def test_an_attached_node_works_and_describes_itself(here: Company) -> None:
    """Its room names its bridge, its port answers no other server, and its operator sees who is present."""
    node, synapse, alice = here.node, here.synapse, here.alice
    asked = await here.mention(alice, "baker", "Bread?")
    await alice.wait_for(answers(asked, "Bread?", sender=node.user("baker")))

    key = f"io.palaver://agents/{NODE_ID}/default"
    for type_ in ("m.bridge", "uk.half-shot.bridge"):
        sign = await alice.wait_until(in_state(here.room_id, type_, key))
        assert sign is not None
        assert sign["content"]["bridgebot"] == node.user("palaver")

    assert (await node.get("/health/ready", "http"))[0] == 200
    assert (await node.get("/_cis/v1/health", "http"))[1]["server_name"] == NODE_ID
    for path in ("/_matrix/key/v2/server", "/_matrix/federation/v1/version"):
        assert (await node.get(path, "http"))[0] == 404

    code, status = await node.cli("status")
    assert (code, status["ready"], status["homeserver_is_there"]) == (0, True, True)
    assert status["guest_of"] == synapse.server_name
    assert status["checks"]["homeserver"] == "fine"
    code, doctor = await node.cli("doctor")
    found = {one["subject"]: one for one in doctor["findings"]}
    assert found["matrix backend"]["verdict"] == "ok", found
    assert found["port"]["verdict"] == "ok", found
    assert (code, doctor["healthy"]) == (0, True)
    code, refused = await node.cli("rooms", "list")
    assert (code, "is an application service of" in refused["problem"]) == (1, True)


async def test_an_outage_of_the_homeserver_loses_nothing(here: Company) -> None:
    """What an agent sends during the outage is sent afterwards; meanwhile the node is not ready, and reports
    why."""
    node, synapse, alice = here.node, here.synapse, here.alice
    asked = await here.mention(alice, "cook", "touch begun; until test -e go; do sleep 0.1; done; seq 1 3")
    async with asyncio.timeout(TIMEOUT):
        while not (node.work / "begun").exists():
            await asyncio.sleep(0.05)
    await synapse.kill()
    here.go_on("go")
    await node.logged("The homeserver is unavailable")
    assert (await node.get("/health/ready", "http"))[0] == 503
    code, status = await node.cli("status")
    assert (code, status["ready"], status["homeserver_is_there"]) == (0, False, False)
    await synapse.start()
    await synapse.settled()
    await node.logged("The homeserver is available again")
    answer = await alice.wait_for(answers(asked, "1\n2\n3", sender=node.user("cook")))
    assert answer["sender"] == node.user("cook")
    again = await here.mention(alice, "baker", "Are you there?")
    await alice.wait_for(answers(again, "Are you there?", sender=node.user("baker")))
    assert (await node.get("/health/ready", "http"))[0] == 200
