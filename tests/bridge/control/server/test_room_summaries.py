"""What rooms say of themselves."""

from bridge.control.server.lookup import summaries
from tests.bridge.control.server.conftest import Operator


async def test_rooms_are_described_at_once(operator: Operator) -> None:
    """In the order asked for; one that is not there is left out."""
    node = operator.node
    alice = node.user("alice")
    named, plain = await node.create("12", alice), await node.create("10", alice)
    await node.graph.send_event(named, "m.room.name", {"name": "Küche"}, alice, "")
    await node.graph.send_event(plain, "m.room.name", {"name": ["no", "text"]}, alice, "")
    found = await summaries(node.homeserver, [plain, "!none", named])
    assert list(found) == [plain, named]
    assert (found[named].name, found[named].alias, found[named].row.version) == ("Küche", None, "12")
    assert found[plain].name is None


async def test_a_name_that_was_redacted_is_not_said(operator: Operator) -> None:
    """Who has a name taken away does not want to read it in a list."""
    node = operator.node
    alice = node.user("alice")
    room_id = await node.create("12", alice)
    event = await node.graph.send_event(room_id, "m.room.name", {"name": "Secret"}, alice, "")
    content = {"redacts": event.event_id}
    await node.graph.send_event(room_id, "m.room.redaction", content, alice, redacts=event.event_id)
    assert (await summaries(node.homeserver, [room_id]))[room_id].name is None


async def test_a_room_without_a_beginning_does_not_hide_the_others(operator: Operator) -> None:
    """That cannot be; and if it is, an operator must see it."""
    node = operator.node
    room_id = await node.create("12", node.user("alice"))
    async with node.database.transaction() as connection:
        await connection.execute("DELETE FROM current_state WHERE type = 'm.room.create'")
    [summary] = (await summaries(node.homeserver, [room_id])).values()
    assert summary.said == {"room_id": room_id, "room_version": "12"}
