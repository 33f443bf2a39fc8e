"""Summaries of rooms."""

from bridge.control.server.lookup import summaries
from tests.bridge.control.server.conftest import Operator


async def test_summaries_are_in_the_given_order(operator: Operator) -> None:
    """Rooms that do not exist are omitted."""
    node = operator.node
    alice = node.user("alice")
    named, plain = await node.create("12", alice), await node.create("10", alice)
    await node.graph.send_event(named, "m.room.name", {"name": "Küche"}, alice, "")
    await node.graph.send_event(plain, "m.room.name", {"name": ["no", "text"]}, alice, "")
    found = await summaries(node.homeserver, [plain, "!none", named])
    assert list(found) == [plain, named]
    assert (found[named].name, found[named].alias, found[named].row.version) == ("Küche", None, "12")
    assert found[plain].name is None


async def test_a_redacted_name_is_omitted(operator: Operator) -> None:
    """Lists must not show it."""
    node = operator.node
    alice = node.user("alice")
    room_id = await node.create("12", alice)
    event = await node.graph.send_event(room_id, "m.room.name", {"name": "Secret"}, alice, "")
    content = {"redacts": event.event_id}
    await node.graph.send_event(room_id, "m.room.redaction", content, alice, redacts=event.event_id)
    assert (await summaries(node.homeserver, [room_id]))[room_id].name is None


async def test_a_room_without_a_create_event_is_listed(operator: Operator) -> None:
    """It should not exist, but must not break the list."""
    node = operator.node
    room_id = await node.create("12", node.user("alice"))
    async with node.database.transaction() as connection:
        await connection.execute("DELETE FROM current_state WHERE type = 'm.room.create'")
    [summary] = (await summaries(node.homeserver, [room_id])).values()
    assert summary.fields == {"room_id": room_id, "room_version": "12"}
