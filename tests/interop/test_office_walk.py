"""An office as people of a real Synapse see and use it, with published clients: once from another homeserver,
once with the node attached to theirs."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.connectors.offices.rooms.office_room import MEMBER, OFFICE, SEAT, TOOLS
from bridge.node.registration import load
from tests.interop.appservice_node import AppserviceNode
from tests.interop.office_company import (
    AGENT,
    COMPUTER,
    SIDES,
    VERSION,
    Office,
    is_call,
    is_result,
    office_company,
    outcome,
)
from tests.interop.staffed_node import TIMEOUT, Company, answers, in_state, relation, says
from tests.support.matrix_client.homeserver import Refused as NoRoom
from tests.support.matrix_client.homeserver import path
from tests.support.matrix_client.seen import Seen
from tests.support.smcp import Peers, PublishedAgent, PublishedComputer
from tests.support.smcp.walk_membership import connect
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office walk")]

OFFICES = """
[offices]
enabled = true
archive_after = "1s"

[[offices.rules]]
tool = "*add"
approval = "ask"
deadline_secs = 600
approvers = ["@alice:{synapse}"]
"""


@pytest.fixture(scope="module", params=SIDES)
async def company(
    palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Company, str]]:
    """One node and one Synapse for all of these tests."""
    directory = tmp_path_factory.mktemp("synapses")
    async with office_company(palaver, authority, directory, request.param, OFFICES) as made:
        yield made


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[PublishedAgent, PublishedComputer]]:
    """They connect again for each test, to another office."""
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        yield await peers.agent(VERSION, AGENT), await peers.computer(VERSION, COMPUTER)


@pytest.fixture
async def office(
    company: tuple[Company, str], pair: tuple[PublishedAgent, PublishedComputer], tmp_path: Path
) -> AsyncIterator[Office]:
    """With a Computer and an Agent, and alice, bob and carol in its room."""
    here, token = company
    agent, computer = pair
    async with Peers(tmp_path) as peers:
        made = Office(here, token, peers)
        await made.computer_comes(computer)
        await made.shown_to(here.alice, here.bob, here.carol)
        await made.agent_comes(agent)
        yield made
        for peer in pair:
            await peer.do("disconnect")
            peer.forget()


async def test_members_of_an_office_are_in_its_room(office: Office) -> None:
    """As users with display names, and in its state; they leave and return with their connections. Its alias
    leads there, and the state names the office's owner."""
    bob, room_id = office.here.bob, office.room_id
    for name, role in ((COMPUTER, "computer"), (AGENT, "agent")):
        user = office.user(name)
        # Perhaps they were there before bob.
        come = await bob.wait_until(in_state(room_id, "m.room.member", user))
        assert come is not None
        assert come["content"]["membership"] == "join"
        said = await bob.wait_until(in_state(room_id, MEMBER, office.user(name)))
        assert said is not None
        assert (said["content"]["role"], said["content"]["name"]) == (role, name)
        assert said["content"]["a2c_version"] == "0.4.0"
    shown = await bob.joined_members(room_id)
    assert shown[office.user(COMPUTER)]["display_name"] == f"{office.office_id}/{COMPUTER}"
    assert (await bob.resolve(office.alias))["room_id"] == room_id
    assert (await bob.state(room_id, OFFICE))["office_id"] == office.office_id
    seat = await bob.wait_until(in_state(room_id, SEAT, ""))
    assert seat is not None
    assert seat["content"]["address"] == office.here.node.address(f"{office.office_id}/{AGENT}")

    await office.computer.do("leave", office=office.office_id)
    await bob.wait_for_member(room_id, office.user(COMPUTER), "leave")
    await bob.wait_until(lambda seen: seen.state[room_id].get((MEMBER, office.user(COMPUTER)), {}).get("content") == {})
    await office.computer.do("join", office=office.office_id)
    await bob.wait_until(
        lambda seen: seen.state[room_id][("m.room.member", office.user(COMPUTER))]["content"]["membership"] == "join"
    )
    await office.agent.do("disconnect")
    await bob.wait_for_member(room_id, office.user(AGENT), "leave")
    await bob.wait_until(lambda seen: seen.state[room_id][(SEAT, "")]["content"] == {})


async def test_an_office_is_found_by_its_name(office: Office) -> None:
    """An existing one only. An attached node restores an alias that its homeserver has lost."""
    here = office.here
    with pytest.raises(NoRoom) as refused:
        await here.bob.resolve(office.alias.replace("kitchen-", "nobody-"))
    assert refused.value.status == 404
    if isinstance(here.node, AppserviceNode):
        registration = load(here.node.directory / "registration.yaml")
        where = path("/_matrix/client/v3/directory/room/{}", office.alias)
        token = registration.secrets.as_token
        await here.synapse.homeserver.request("DELETE", where, token=token)
    dave = await here.synapse.person()
    assert await dave.join(office.alias) == office.room_id
    assert (await here.bob.resolve(office.alias))["room_id"] == office.room_id


async def test_tools_are_shown_and_a_call_is_a_thread(office: Office) -> None:
    """With its result: text as text, and an image as a file."""
    bob, room_id = office.here.bob, office.room_id
    # It has requested them when it was notified of the Computer, or requests them now.
    await office.agent.do("tools", computer=COMPUTER)
    tools = await bob.wait_until(in_state(room_id, TOOLS, office.user(COMPUTER)))
    assert tools is not None
    assert {tool["name"] for tool in tools["content"]["tools"]} == {
        f"tools__{name}" for name in ("add", "echo", "slow", "fail", "large")
    }

    result = await office.call("echo", text="Soup **is** ready")
    assert result["content"][0]["text"] == "Soup **is** ready"
    call = await bob.wait_for(is_call("echo"), room_id=room_id)
    assert (call["sender"], call["content"]["msgtype"]) == (office.user(AGENT), "m.notice")
    assert f"{AGENT} calls tools__echo on {COMPUTER}" in call["content"]["body"]
    assert "Soup **is** ready" in call["content"]["body"]
    told = await bob.wait_for(is_result(call["event_id"]), room_id=room_id)
    assert (told["sender"], outcome(told)) == (office.user(COMPUTER), "done")
    assert "Soup **is** ready" in told["content"]["body"]
    thread = await bob.relations(room_id, call["event_id"], "m.thread")
    assert [event["event_id"] for event in thread] == [told["event_id"]]

    await office.call("large", size=1_000)
    call = await bob.wait_for(is_call("large"), room_id=room_id)
    sent = await bob.wait_for(
        lambda event: relation(event)[:2] == ("m.thread", call["event_id"]) and event["content"]["msgtype"] == "m.file",
        room_id=room_id,
    )
    file = await bob.download(sent["content"]["url"])
    assert file.data == bytes(position & 0xFF for position in range(1_000))
    told = await bob.wait_for(is_result(call["event_id"]), room_id=room_id)
    [media] = told["content"]["io.a2c.tool.result"]["media"]
    assert media["sha256"] == hashlib.sha256(file.data).hexdigest()

    failed = await office.call("fail")
    assert failed["isError"]
    call = await bob.wait_for(is_call("fail"), room_id=room_id)
    told = await bob.wait_for(is_result(call["event_id"]), room_id=room_id)
    assert (outcome(told), "always fails" in told["content"]["body"]) == ("error", True)


async def test_a_call_is_approved(office: Office) -> None:
    """By ✅ of a permitted person: only then the Computer gets the call, and the Agent its result. Another
    person's reaction is refused and has no effect."""
    alice, bob, room_id = office.here.alice, office.here.bob, office.room_id
    node_user = office.here.node.user("palaver")
    calling = asyncio.create_task(office.call("add", a=2, b=3))
    try:
        call = await alice.wait_for(is_call("add"), room_id=room_id)
        root = call["event_id"]
        question = await alice.wait_for(answers(root, "❓", f"{AGENT} wants to call tools__add", sender=node_user))
        assert question["content"]["m.mentions"] == {"user_ids": [alice.user_id]}
        for sign in ("✅", "❌"):
            await bob.react(room_id, question["event_id"], sign)
        told = await bob.wait_for(answers(root, f"{bob.user_id} may not decide about this call"))
        assert told["sender"] == node_user
        assert office.computer.heard("client:tool_call") == []
        assert not calling.done()
        await alice.react(room_id, question["event_id"], "✅")
        result = await calling
    finally:
        calling.cancel()
    assert result["structuredContent"] == {"result": 5}
    told = await bob.wait_for(is_result(root), room_id=room_id)
    assert outcome(told) == "done"
    said = [event["content"]["body"] for event in (await bob.relations(room_id, root, "m.thread"))[::-1]]
    assert [body[0] for body in said] == ["❓", bob.user_id[0], "✅", "✅"]
    assert f"{alice.user_id} has approved this" in said[2]
    assert len(office.computer.heard("client:tool_call")) == 1


async def test_a_call_is_refused(office: Office) -> None:
    """By ❌: the tool never runs, and the Agent gets the name of the person."""
    alice, room_id = office.here.alice, office.room_id
    calling = asyncio.create_task(office.call("add", a=2, b=3))
    try:
        call = await alice.wait_for(is_call("add"), room_id=room_id)
        question = await alice.wait_for(answers(call["event_id"], "❓"))
        await alice.react(room_id, question["event_id"], "❌")
        result = await calling
    finally:
        calling.cancel()
    assert result["isError"]
    assert f"{alice.user_id} has refused this call" in result["content"][0]["text"]
    assert result["meta"] == {"a2c_approval": "refused", "by": alice.user_id}
    await alice.wait_for(answers(call["event_id"], f"{alice.user_id} has refused this"))
    told = await alice.wait_for(is_result(call["event_id"]), room_id=room_id)
    assert outcome(told) == "refused"
    # A later request arrives later.
    await office.agent.do("tools", computer=COMPUTER)
    await office.computer.until("client:get_tools")
    assert office.computer.heard("client:tool_call") == []


async def test_a_running_call_is_stopped(office: Office) -> None:
    """By ❌ of an administrator: the Computer gets the cancel, and the tool ends. Another person's reaction
    is refused and has no effect."""
    bob, carol, room_id = office.here.bob, office.here.carol, office.room_id
    calling = asyncio.create_task(office.call("slow", seconds=90))
    try:
        assert await office.computer.until("tool") == {"word": "begin"}
        call = await carol.wait_for(is_call("slow"), room_id=room_id)
        root = call["event_id"]
        for _ in range(2):
            await bob.redact(room_id, await bob.react(room_id, root, "❌"))
        await bob.wait_for(answers(root, f"{bob.user_id} cannot stop this call", "administer"))
        assert office.computer.heard("notify:tool_call_cancel") == []
        await carol.react(room_id, root, "❌")
        cancelled = await office.computer.until("notify:tool_call_cancel")
        assert cancelled["req_id"] == call["content"]["io.a2c.tool.call"]["req_id"]
        assert await office.computer.until("tool") == {"word": "cancelled"}
        result = await calling
    finally:
        calling.cancel()
    assert result["meta"]["a2c_cancelled"] is True
    await bob.wait_for(answers(root, f"{carol.user_id} has cancelled it"))
    told = await bob.wait_for(is_result(root), room_id=room_id)
    assert outcome(told) == "cancelled"
    told_bob = [event for event in await bob.relations(room_id, root, "m.thread") if says("cannot stop")(event)]
    assert len(told_bob) == 1


async def test_a_refused_second_agent_is_not_shown(office: Office) -> None:
    """The room has one Agent."""
    bob, room_id = office.here.bob, office.room_id
    rival = await office.peers.agent("0.4.2", "rival")
    await connect(rival, office.expectations)
    await rival.do("join", office=office.office_id, name="rival")
    result = await office.call("echo", text="still mine")
    assert result["content"][0]["text"] == "still mine"
    call = await bob.wait_for(is_call("echo"), room_id=room_id)
    await bob.wait_for(is_result(call["event_id"]), room_id=room_id)
    assert office.user("rival") not in await bob.joined_members(room_id)
    assert (MEMBER, office.user("rival")) not in await bob.full_state(room_id)


async def test_an_unused_office_is_archived(office: Office) -> None:
    """Its room gets one notice and is removed from the directory; the next member reopens the same room."""
    bob, room_id = office.here.bob, office.room_id
    is_listed = isinstance(office.here.node, AppserviceNode)

    async def listed() -> bool:
        return room_id in [room["room_id"] for room in await bob.public_rooms()]

    def is_archived(seen: Seen) -> bool:
        said = seen.state[room_id].get((OFFICE, ""))
        return said is not None and said["content"].get("archived") is True

    assert await listed() is is_listed
    await office.agent.do("leave", office=office.office_id)
    await office.computer.do("leave", office=office.office_id)
    await bob.wait_until(is_archived)
    notice = await bob.wait_for(says("so it is archived"), room_id=room_id)
    assert notice["sender"] == office.here.node.user("palaver")
    assert notice["content"]["msgtype"] == "m.notice"
    await office.computer.do("join", office=office.office_id)
    await bob.wait_until(lambda seen: not is_archived(seen))
    await bob.wait_until(in_state(room_id, MEMBER, office.user(COMPUTER)))
    history = await bob.history(room_id)
    assert len([event for event in history if says("so it is archived")(event)]) == 1
    states = [event["content"].get("archived") for event in history if event["type"] == OFFICE]
    assert states == [None, True, None]
    async with asyncio.timeout(TIMEOUT):
        while await listed() is not is_listed:
            await asyncio.sleep(0.05)
    assert await bob.join(office.alias) == room_id
