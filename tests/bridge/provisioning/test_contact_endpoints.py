"""Endpoints for contacts and chats."""

import asyncio

from tests.bridge.people.service.running_node import ALICE, HERE, WORKER, Servers
from tests.bridge.provisioning.bridge_manager import manager, quoted


async def test_contacts_and_search(servers: Servers) -> None:
    """With their users."""
    async with manager(servers, agents=("cook", "worker-1")) as one:
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


async def test_resolve_identifier(servers: Servers) -> None:
    """By user, address, or id alone."""
    async with manager(servers) as one:
        for text in ("worker-1", f"worker-1@{HERE}", f"palaver:worker-1@{HERE}", WORKER):
            said = await one.get(f"resolve_identifier/{quoted(text)}")
            assert (said["id"], said["mxid"]) == (f"worker-1@{HERE}", WORKER)
            assert "dm_room_mxid" not in said
        for text in ("nobody", f"nobody@{HERE}", ALICE, "%00", "a@b@c"):
            refused = await one.refused("GET", f"resolve_identifier/{quoted(text)}")
            assert refused == (404, "M_NOT_FOUND")


async def test_create_dm_is_idempotent(servers: Servers) -> None:
    """Also for concurrent requests. The person is invited, and the agent handles messages in the chat."""
    async with manager(servers) as one:
        both = await asyncio.gather(*(one.ask("POST", "create_dm/worker-1") for _ in range(2)))
        (room_id,) = {said.body["dm_room_mxid"] for said in both}
        assert {said.status for said in both} <= {200, 201}
        assert 201 in {said.status for said in both}
        await servers.join_when_invited(room_id, ALICE)
        again = await one.ask("POST", f"create_dm/{quoted(WORKER)}")
        assert (again.status, again.body["dm_room_mxid"]) == (200, room_id)
        assert (await one.get("resolve_identifier/worker-1"))["dm_room_mxid"] == room_id
        (contact,) = (await one.get("contacts"))["contacts"]
        assert contact["dm_room_mxid"] == room_id
        await servers.there.say(room_id, ALICE, "Peel the potatoes")
        assert (await one.node.given()).request.prompt == "Peel the potatoes"
        # Chats of others are not listed.
        (of_bob,) = (await one.get("contacts", token="of-bob"))["contacts"]
        assert "dm_room_mxid" not in of_bob


async def test_unsupported_endpoints(servers: Servers) -> None:
    """501, as other bridges do."""
    async with manager(servers) as one:
        for path in ("create_group", "create_group/group", f"backfill/{quoted('!room:x')}"):
            assert await one.refused("POST", path, {}) == (501, "M_UNRECOGNIZED")
