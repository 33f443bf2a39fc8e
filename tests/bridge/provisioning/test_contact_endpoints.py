"""Agents, and chats with them."""

import asyncio

from tests.bridge.people.service.scene import ALICE, HERE, WORKER, Stage
from tests.bridge.provisioning.bridge_manager import manager, quoted


async def test_agents_are_contacts(play: Stage) -> None:
    """With their users, and found by what is known of them."""
    async with manager(play, agents=("cook", "worker-1")) as one:
        list_agents = (await one.get("contacts"))["contacts"]
        assert [contact["mxid"] for contact in list_agents] == [f"@cook:{HERE}", WORKER]
        found = await one.ask("POST", "search_users", {"query": "WORK"})
        assert [contact["id"] for contact in found.body["results"]] == [f"worker-1@{HERE}"]
        bodies: tuple[object, ...] = ({}, {"query": 1}, [])
        for body in bodies:
            assert await one.refused("POST", "search_users", body) == (400, "M_BAD_JSON")
        assert (await one.ask("POST", "search_users", data=b"{")).body["errcode"] == "M_NOT_JSON"
        too_large = await one.ask("POST", "search_users", data=b" " * 70_000)
        assert (too_large.status, too_large.body["errcode"]) == (413, "M_TOO_LARGE")


async def test_an_agent_is_named_in_several_ways(play: Stage) -> None:
    """By its user, its address, or its id alone."""
    async with manager(play) as one:
        for text in ("worker-1", f"worker-1@{HERE}", f"palaver:worker-1@{HERE}", WORKER):
            said = await one.get(f"resolve_identifier/{quoted(text)}")
            assert (said["id"], said["mxid"]) == (f"worker-1@{HERE}", WORKER)
            assert "dm_room_mxid" not in said
        for text in ("nobody", f"nobody@{HERE}", ALICE, "%00", "a@b@c"):
            refused = await one.refused("GET", f"resolve_identifier/{quoted(text)}")
            assert refused == (404, "M_NOT_FOUND")


async def test_a_chat_is_made_once_and_found_again(play: Stage) -> None:
    """Also when it is asked for twice at the same time. The person is invited, and what is said there the
    agent hears as ever."""
    async with manager(play) as one:
        both = await asyncio.gather(*(one.ask("POST", "create_dm/worker-1") for _ in range(2)))
        (room_id,) = {said.body["dm_room_mxid"] for said in both}
        assert {said.status for said in both} <= {200, 201}
        assert 201 in {said.status for said in both}
        await play.join_when_invited(room_id, ALICE)
        again = await one.ask("POST", f"create_dm/{quoted(WORKER)}")
        assert (again.status, again.body["dm_room_mxid"]) == (200, room_id)
        assert (await one.get("resolve_identifier/worker-1"))["dm_room_mxid"] == room_id
        (contact,) = (await one.get("contacts"))["contacts"]
        assert contact["dm_room_mxid"] == room_id
        await play.there.say(room_id, ALICE, "Peel the potatoes")
        assert (await one.scene.given()).request.prompt == "Peel the potatoes"
        # Nobody is told of the chats of others.
        (of_bob,) = (await one.get("contacts", token="of-bob"))["contacts"]
        assert "dm_room_mxid" not in of_bob


async def test_what_there_is_none_of_says_so(play: Stage) -> None:
    """As bridges do that lack it."""
    async with manager(play) as one:
        for path in ("create_group", "create_group/group", f"backfill/{quoted('!room:x')}"):
            assert await one.refused("POST", path, {}) == (501, "M_UNRECOGNIZED")
