"""`palaver rooms leave`."""

import pytest

from bridge.control.server import rooms as leaving
from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator


async def test_all_local_users_leave(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches sorted by id. Users of other servers stay."""
    monkeypatch.setattr(leaving, "MAX_AT_ONCE", 2)
    node, there = operator.node, operator.there
    alice, bob, carol, dave = (node.user(name) for name in ("alice", "bob", "carol", "dave"))
    room_id = await node.create("12", alice)
    await node.membership.join(room_id, bob)
    await node.membership.join(room_id, carol)
    await node.membership.invite(room_id, alice, dave)
    await there.membership.join(room_id, there.user("eve"), ["here.test"])
    look = await operator.ask("rooms-leave", room=room_id, look=True)
    assert [(one["user_id"], one["membership"]) for one in look["users"]] == [(alice, "join"), (bob, "join")]
    assert await node.membership_of(room_id, alice) == "join"
    first = await operator.ask("rooms-leave", room=room_id)
    assert (first["next"], [one["problem"] for one in first["users"]]) == (bob, [None, None])
    second = await operator.ask("rooms-leave", room=room_id, after=first["next"])
    assert ([one["user_id"] for one in second["users"]], second["next"]) == ([carol, dave], None)
    for user in (alice, bob, carol, dave):
        assert await node.membership_of(room_id, user) == "leave"
    await there.until_member(room_id, dave, "leave")
    assert await there.membership_of(room_id, there.user("eve")) == "join"
    assert (await operator.ask("rooms-leave", room=room_id))["users"] == []


async def test_one_local_user_leaves(operator: Operator) -> None:
    """Users of other servers are refused."""
    node = operator.node
    alice, bob = node.user("alice"), node.user("bob")
    room_id = await node.create("12", alice)
    await node.membership.join(room_id, bob)
    left = await operator.ask("rooms-leave", room=room_id, user=bob)
    assert left == {
        "room_id": room_id,
        "users": [{"user_id": bob, "membership": "join", "problem": None}],
        "next": None,
    }
    assert await node.membership_of(room_id, alice) == "join"
    with pytest.raises(LocalError, match="is not in"):
        await operator.ask("rooms-leave", room=room_id, user=bob)
    with pytest.raises(LocalError, match=r"is not a user of here\.test"):
        await operator.ask("rooms-leave", room=room_id, user="@x:there.test")


async def test_an_invite_to_a_remote_room_is_rejected(operator: Operator) -> None:
    """This node knows the room only by its id."""
    node, there = operator.node, operator.there
    bob, carol = node.user("bob"), there.user("carol")
    room_id = await there.create("12", carol, join_rule="invite")
    await there.membership.invite(room_id, carol, bob)
    assert (await operator.ask("rooms-leave", room=room_id, user=bob, look=True))["users"][0]["membership"] == "invite"
    left = await operator.ask("rooms-leave", room=room_id)
    assert [(one["user_id"], one["problem"]) for one in left["users"]] == [(bob, None)]
    await there.until_member(room_id, bob, "leave")
    with pytest.raises(LocalError, match="not joined a room"):
        await operator.ask("rooms-leave", room=room_id)


async def test_a_user_who_cannot_leave_does_not_stop_the_others(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is in the answer."""
    node = operator.node
    alice, bob = node.user("alice"), node.user("bob")
    room_id = await node.create("12", alice)
    await node.membership.join(room_id, bob)
    # The table disagrees with the room, so the auth rules reject Alice's leave event.
    await node.membership.leave(room_id, alice)
    async with node.database.transaction() as connection:
        await connection.execute("UPDATE current_state SET membership = 'join' WHERE state_key = $1", alice)
    left = await operator.ask("rooms-leave", room=room_id)
    problems = {one["user_id"]: one["problem"] for one in left["users"]}
    assert problems[bob] is None
    assert "M_FORBIDDEN" in problems[alice]
