"""The audit trails of two whole nodes after their users have interacted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from federation.matrix.errors import MatrixError
from storage.federation.audit import AuditSearch
from tests.federation.nodes import TIMEOUT, Node, Nodes
from tests.support.postgres import Server

Row = tuple[str | None, str, str, str | None, str | None, str | None, str]


class AuditedNodes(Nodes):
    """Key requests are ignored here: they occur whenever a key is needed."""

    async def rows(self, node: Node) -> set[Row]:
        """Return the entries without time and detail."""
        await node.homeserver.audit._flush()
        found = await node.homeserver.audit.search(AuditSearch(), 1000)
        return {
            (row.peer, row.direction, row.act, row.user_id, row.room_id, row.subject, row.outcome)
            for row in found
            if row.act != "server_keys"
        }


@asynccontextmanager
async def audited(server: Server, template: str) -> AsyncIterator[AuditedNodes]:
    async with AsyncExitStack() as stack:
        yield AuditedNodes(server, template, stack)


async def test_both_nodes_record_the_same_operations(postgres_server: Server, migrated_template: str) -> None:
    """A join, a message, an invite and a leave, each from its own side."""
    async with audited(postgres_server, migrated_template) as nodes:
        here, there = await nodes.start("here.test", "there.test")
        alice, bob = here.user("alice"), there.user("bob")
        room_id = await here.create("12", alice)
        await there.membership.join(room_id, bob, [here.name], {})
        said = await there.say(room_id, bob, "hello")
        async with asyncio.timeout(TIMEOUT):
            await here.until(lambda event_id, _: event_id == said)
        private = await here.create("12", alice, "invite")
        invite = await here.membership.invite(private, alice, bob)
        await there.membership.leave(private, bob)
        async with asyncio.timeout(TIMEOUT):
            while len(await nodes.rows(there)) < 6:
                await asyncio.sleep(0.01)

        ours, theirs = await nodes.rows(here), await nodes.rows(there)
        assert {row[:3] for row in theirs} == {
            (here.name, "out", "make_join"),
            (here.name, "out", "send_join"),
            (here.name, "out", "transaction"),
            (here.name, "in", "invite"),
            (here.name, "out", "make_leave"),
            (here.name, "out", "send_leave"),
        }
        turned = {"in": "out", "out": "in"}
        as_seen_here = {(there.name, turned[direction], *rest) for _, direction, *rest in theirs}
        # The receiver of a transaction records its events.
        brought = {row for row in ours if row[2] == "transaction"}
        assert {row[4] for row in brought} == {room_id}
        assert {row[2:] for row in ours - brought} == {row[2:] for row in as_seen_here if row[2] != "transaction"}
        assert {row[6] for row in ours | theirs} == {"done"}
        assert (there.name, "out", "invite", bob, private, invite.event_id, "done") in ours
        assert {row[3:5] for row in ours if row[2] == "send_leave"} == {(bob, private)}


async def test_both_nodes_record_refusals(postgres_server: Server, migrated_template: str) -> None:
    """With their origin."""
    async with audited(postgres_server, migrated_template) as nodes:
        here, there = await nodes.start("here.test", "there.test")
        bob = there.user("bob")
        room_id = await here.create("12", here.user("alice"), "invite")
        with pytest.raises(MatrixError, match="403"):
            await there.membership.join(room_id, bob, [here.name], {})
        assert (there.name, "in", "make_join", bob, room_id, None, "refused") in await nodes.rows(here)
        assert (here.name, "out", "make_join", bob, room_id, None, "refused") in await nodes.rows(there)
