"""A node that is a homeserver and one attached to a Synapse, as published nodes of each other: all that holds
for two homeservers, and people of the Synapse who watch."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.staffed_node import answers, in_state, is_said, says
from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.process.test_published_nodes import (  # noqa: F401 - the tests too: they are run with these nodes
    CELLAR,
    COOK,
    KITCHEN,
    MINER,
    SILENCE,
    pair,
    test_a_node_goes_offline_and_returns,
    test_a_task_for_an_unknown_agent,
    test_a_task_is_cancelled,
    test_a_task_runs_on_the_other_node,
    test_both_nodes_are_killed_during_tasks,
    test_the_agents_node_is_killed_during_a_task,
    test_the_requesters_node_is_killed_during_a_task,
)
from tests.support.matrix_client import MatrixClient, Refused
from tests.support.matrix_client.seen import Seen
from tests.support.ports import lasting_port
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("published appservice")]

ATTACHED = """
[appservice]
homeserver = "https://{synapse}"
domain = "{synapse}"
port = {port}

[permissions]
"*" = "none"
"@alice:{synapse}" = "work"
"""


class Hosted(NamedTuple):
    """The kitchen is attached to the Synapse, the cellar is a homeserver."""

    nodes: list[AgentNode]
    synapse: Synapse
    alice: MatrixClient
    room_id: str


@pytest.fixture(scope="module")
async def hosted(
    palaver: Path,
    postgres_server: Server,
    migrated_template: str,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Hosted]:
    directory = tmp_path_factory.mktemp("hosted")
    synapses = SynapseFactory(directory / "synapses", authority)
    synapse = await synapses(start=False)
    name = synapse.server_name

    async def register(nodes: list[AgentNode]) -> None:
        kitchen, _ = nodes
        code, said = await kitchen.palaver("registration")
        assert code == 0, said
        synapse.appservices = [kitchen.directory / "registration.yaml"]
        await synapse.start()
        await synapse.settled()

    common = {"is_published": True, "agent_timeout": SILENCE}
    kitchen = {
        "name": KITCHEN,
        "agents": ["cook"],
        "top": 'matrix_side = "appservice"',
        "more": ATTACHED.format(synapse=name, port=lasting_port()),
        "environment": {"SSL_CERT_FILE": str(authority.write(directory, "ca"))},
        "has_people": True,
    }
    cellar = {"name": CELLAR, "agents": ["miner"]}
    running = agent_nodes(
        palaver, postgres_server, migrated_template, {**common, **kitchen}, {**common, **cellar}, prepare=register
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(synapses.clean_up)
        nodes = await stack.enter_async_context(running)
        alice = await synapse.person("alice")
        room_id = await alice.join(f"#agents-default:{name}")
        yield Hosted(nodes, synapse, alice, room_id)


@pytest.fixture(scope="module")
def nodes(hosted: Hosted) -> list[AgentNode]:
    return hosted.nodes


async def test_a_person_gives_a_task_to_an_agent_of_the_other_node(hosted: Hosted) -> None:
    """By its address, and by its ghost on the Synapse; the answer comes from the ghost."""
    [kitchen, cellar], synapse, alice, room_id = hosted
    await kitchen.sees(MINER)
    user = f"@_agent_miner=40{CELLAR}:{synapse.server_name}"
    asked = await alice.say(room_id, f"{MINER}: echo by address")
    answer = await alice.wait_for(answers(asked, "by address"))
    assert answer["sender"] == user
    asked = await alice.say(room_id, "miner: echo by user", **{"m.mentions": {"user_ids": [user]}})
    await alice.wait_for(answers(asked, "by user", sender=user))
    assert max(cellar.begun().values()) == 1


async def test_people_see_tasks_of_the_other_node(hosted: Hosted) -> None:
    """A task for an agent of the attached node is a thread on the Synapse, with its requester."""
    [_, cellar], synapse, alice, room_id = hosted
    await cellar.sees(COOK)
    await cellar.ask(COOK, "echo for the cellar", "seen")
    await cellar.answered("seen")
    root = await alice.wait_for(says(COOK, "echo for the cellar"))
    assert root["room_id"] == room_id
    assert root["sender"] == f"@_agent_palaver:{synapse.server_name}"
    cook = f"@_agent_cook:{synapse.server_name}"
    await alice.wait_for(answers(root["event_id"], "for the cellar", sender=cook))


async def test_the_attached_node_has_no_rooms_of_agents(hosted: Hosted) -> None:
    """Events between programs are in no room of the Synapse: its people see one room."""
    alice, room_id, server = hosted.alice, hosted.room_id, hosted.synapse.server_name
    for name in ("agent-federation-default", "agent-broadcast"):
        with pytest.raises(Refused, match="404 M_NOT_FOUND"):
            await alice.resolve(f"#{name}:{server}")
    said = [event for event in await alice.history(room_id) if event["type"].startswith("io.cis.")]
    assert said == []
    assert any(is_said(event) for event in await alice.history(room_id))


async def test_an_encrypted_room_gets_one_notice(hosted: Hosted) -> None:
    """Whether created encrypted or encrypted later, and however many agents are invited."""
    [kitchen, _], synapse, alice, _ = hosted
    await kitchen.sees(COOK)
    ghosts = [f"@_agent_{name}:{synapse.server_name}" for name in ("palaver", "cook")]
    encryption = {"algorithm": "m.megolm.v1.aes-sha2"}
    initial = {"type": "m.room.encryption", "state_key": "", "content": encryption}
    made_so = await alice.create_room(preset="private_chat", initial_state=[initial], invite=ghosts)
    switched = await alice.create_room(preset="private_chat", invite=ghosts)
    for room_id in (made_so, switched):
        for user in ghosts:
            await alice.wait_until(_is_in(room_id, user))
    await alice.set_state(switched, "m.room.encryption", encryption)
    for room_id in (made_so, switched):
        await alice.wait_for(says("This room is encrypted"), room_id=room_id)
        for _ in range(3):
            await alice.send(room_id, "m.room.encrypted", {**encryption, "ciphertext": "x"})
        # All effects of it have been sent before this is answered.
        await alice.say(room_id, "!agents help")
        await alice.wait_for(says("Commands:"), room_id=room_id)
        history = await alice.history(room_id)
        said = [event for event in history if event["sender"] in ghosts and is_said(event)]
        assert len(said) == 2, said


def _is_in(room_id: str, user: str) -> Callable[[Seen], bool]:
    found = in_state(room_id, "m.room.member", user)

    def is_in(seen: Seen) -> bool:
        member = found(seen)
        return member is not None and member["content"]["membership"] == "join"

    return is_in
