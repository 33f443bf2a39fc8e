"""One office of a homeserver node and a node attached to a Synapse, in either direction: published clients,
the Agent at one of them and the Computer at the other."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.appservice_node import appservice_company
from tests.interop.staffed_node import CONFIGURATION, FILE, KITCHEN, StaffedNode
from tests.support.ports import lasting_port
from tests.support.smcp import Peers
from tests.support.smcp.walk import Expectations, Pair, Step, arrive
from tests.support.smcp.walk_calls import walk_call, walk_calls_at_once, walk_cancel, walk_large
from tests.support.smcp.walk_getters import walk_get_blob, walk_put_blob, walk_tools
from tests.support.smcp.walk_membership import (
    walk_disconnect,
    walk_leave,
    walk_list,
    walk_lost_computer,
    walk_notifications,
)
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("offices across sides")]

STEPS: tuple[Step, ...] = (
    walk_list, walk_tools, walk_call, walk_calls_at_once, walk_large, walk_cancel, walk_get_blob,
    walk_put_blob, walk_notifications, walk_leave, walk_disconnect, walk_lost_computer,
)  # fmt: skip
OFFICES = """
[offices]
enabled = true
nodes = ["{other}"]
"""


@dataclass
class Hosted:
    node: StaffedNode
    guest: StaffedNode
    tokens: dict[str, str]


async def token_of(node: StaffedNode) -> str:
    code, said = await node.cli("offices", "token", "create", "everybody")
    assert code == 0, said
    return str(said["token"])


@pytest.fixture(scope="module")
async def hosted(
    palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hosted]:
    make_synapse = SynapseFactory(tmp_path_factory.mktemp("synapse"), authority)
    synapse = await make_synapse(start=False)
    # Not below the directory of the test: the path of a Unix socket has 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="palaver-sides-"))
    node = StaffedNode(palaver, directory, lasting_port(), 0)
    try:
        (directory / "tls").mkdir()
        node.work.mkdir()
        authority.write(directory / "tls", "ca")
        authority.issue("localhost", "127.0.0.1", "::1").write(directory / "tls", "node")
        said = CONFIGURATION.format(
            port=node.port, synapse=synapse.server_name, guests="", kitchen=KITCHEN, kitchen_url="http://127.0.0.1:1"
        )
        # As users of the Synapse its people are no members, whatever they say.
        (directory / FILE).write_text(said + OFFICES.format(other=f"@_agent_*:{synapse.server_name}"))
        more = OFFICES.format(other=node.server_name)
        async with appservice_company(palaver, authority, synapse, more=more) as company:
            await node.start()
            guest = company.node
            of_node, of_guest = await asyncio.gather(token_of(node), token_of(guest))
            yield Hosted(node, guest, {node.server_name: of_node, guest.server_name: of_guest})
    finally:
        await node.clean_up()
        await make_synapse.clean_up()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module", params=["at the homeserver", "at the guest"])
async def pair(
    hosted: Hosted, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Pair]:
    """The office belongs to the Computer's node."""
    home, away = hosted.node, hosted.guest
    if request.param == "at the guest":
        home, away = away, home
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        agent, computer = await peers.agent("0.4.2"), await peers.computer("0.4.2")
        expectations = Expectations(
            url=away.url("", "http"),
            token=hosted.tokens[away.server_name],
            office=f"stove-{secrets.token_hex(4)}@{home.server_name}",
            agent_id="planner-7",
            computer_url=home.url("", "http"),
            computer_token=hosted.tokens[home.server_name],
        )
        pair = Pair(peers, agent, computer, expectations)
        await pair.walk(arrive)
        yield pair


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_a_step(pair: Pair, step: Step) -> None:
    """As in an office of one node, in this order: the last step loses the Computer."""
    await pair.walk(step)
