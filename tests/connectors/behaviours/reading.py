"""Reading rooms."""

from collections.abc import Sequence

import pytest

from federation.events.room_event import RoomEvent
from federation.matrix.message_content import in_thread, text
from tests.connectors.setup import BackendSetup, bodies, refused

UNKNOWN = ("$unknown", "", "\0", "$" + "x" * 300, "../x")


async def all_of(
    backend_setup: BackendSetup, room_id: str, limit: int, reader: str | None = None
) -> Sequence[RoomEvent]:
    """Page by page from the end."""
    events: list[RoomEvent] = []
    start: str | None = None
    while True:
        page = await backend_setup.side.messages(room_id, start=start, limit=limit, reader=reader)
        assert len(page.events) <= limit
        events += page.events
        start = page.next
        if start is None:
            return events


class ReadingBehaves:
    async def test_timeline_in_pages(self, backend_setup: BackendSetup) -> None:
        """Without gaps and repetitions, for any page size."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        wanted = [str(number) for number in range(12)]
        for body in wanted:
            await backend_setup.say(room_id, alice, body)
        for limit in (1, 5, 100):
            events = await all_of(backend_setup, room_id, limit)
            assert bodies(events) == wanted[::-1]
            assert events[-1].type == "m.room.create"
            assert len({event.event_id for event in events}) == len(events)
        first = await backend_setup.side.messages(room_id, backwards=False, limit=10)
        assert first.events[0].type == "m.room.create"
        rest = await backend_setup.side.messages(room_id, start=first.next, backwards=False, limit=1_000)
        assert bodies([*first.events, *rest.events]) == wanted
        assert rest.next is None
        async with backend_setup.again() as again:
            page = await again.messages(room_id, start=first.next, backwards=False, limit=1_000)
            assert page.events == rest.events

    async def test_invalid_tokens_and_rooms_are_refused(self, backend_setup: BackendSetup) -> None:
        """With a `MatrixError`."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        for wrong in ("x", "1_2_3", "\0", "", "x" * 10_000, "../../x"):
            await refused(backend_setup.side.messages(room_id, start=wrong), "M_INVALID_PARAM")
        for room in (f"!no:{backend_setup.domain}", "", "!\0:x"):
            await refused(backend_setup.side.messages(room), "M_NOT_FOUND")

    async def test_history_before_the_join(self, backend_setup: BackendSetup) -> None:
        """Without redacted contents."""
        bob, alice = await backend_setup.person(), await backend_setup.user("alice")
        room_id = await bob.create_room(preset="public_chat")
        wanted = [await bob.say(room_id, str(number)) for number in range(15)]
        await bob.redact(room_id, wanted[7])
        await backend_setup.side.join(room_id, alice, via=[bob.server_name])
        events = [event for event in await all_of(backend_setup, room_id, 6) if event.type == "m.room.message"]
        assert [event.event_id for event in events] == wanted[::-1]
        assert [event.event_id for event in events if event.is_redacted] == [wanted[7]]

    async def test_context(self, backend_setup: BackendSetup) -> None:
        """Only in the requested room."""
        alice = await backend_setup.user("alice")
        room_id, other = await backend_setup.room(alice), await backend_setup.room(alice)
        ids = [await backend_setup.say(room_id, alice, str(number)) for number in range(7)]
        event = await backend_setup.side.event(room_id, ids[3])
        assert event is not None
        assert (event.event_id, event.room_id, event.sender, event.state_key, event.is_redacted) == (
            ids[3],
            room_id,
            alice,
            None,
            False,
        )
        context = await backend_setup.side.context(room_id, ids[3], limit=2)
        assert context is not None
        assert context.event == event
        assert bodies(context.before.events) == ["2", "1"]
        assert bodies(context.after.events) == ["4", "5"]
        further = await backend_setup.side.messages(room_id, start=context.before.next, limit=1)
        assert bodies(further.events) == ["0"]
        further = await backend_setup.side.messages(room_id, start=context.after.next, limit=5, backwards=False)
        assert bodies(further.events) == ["6"]
        for room, event_id in ((other, ids[3]), *((room_id, unknown) for unknown in UNKNOWN)):
            assert await backend_setup.side.event(room, event_id) is None
            assert await backend_setup.side.context(room, event_id) is None

    async def test_relations(self, backend_setup: BackendSetup) -> None:
        """Oldest first. Redacted events have no relations and do not count."""
        alice = await backend_setup.user("alice")
        room_id, other = await backend_setup.room(alice), await backend_setup.room(alice)
        side = backend_setup.side
        root = await backend_setup.say(room_id, alice, "root")
        ids = [
            await side.send(room_id, alice, "m.room.message", in_thread(root, text(str(number)))) for number in range(4)
        ]
        found = await side.relations(room_id, root, "m.thread", limit=2)
        assert [event.event_id for event in found] == ids[:2]
        assert await side.relations(room_id, root, "m.replace") == []
        assert await side.relations(other, root) == []
        await side.redact(room_id, alice, ids[0])
        found = await side.relations(room_id, root, "m.thread", limit=2)
        assert [event.event_id for event in found] == ids[1:3]
        assert await side.relations(room_id, root, "m.thread", limit=1_000) == await side.relations(room_id, root)
        for unknown in UNKNOWN:
            assert await side.relations(room_id, unknown) == []
        assert await side.relations(room_id, root, "\0") == []

    async def test_state(self, backend_setup: BackendSetup) -> None:
        """Including changes that were just made."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice, name="Kitchen")
        side = backend_setup.side
        for n in (1, 2):
            await side.set_state(room_id, alice, "io.x", {"n": n}, "a")
            assert await backend_setup.state(room_id, "io.x", "a") == {"n": n}
            state = {(event.type, event.state_key): event for event in await side.state(room_id)}
            assert state["io.x", "a"].content == {"n": n}
        assert state["m.room.create", ""].room_id == room_id
        assert state["m.room.create", ""].sender == alice
        await side.set_state(room_id, alice, "io.x", {}, "b")
        assert {event.state_key for event in await side.state(room_id, "io.x")} == {"a", "b"}
        assert await side.state_event(room_id, "io.y") is None
        assert await side.state_event(room_id, "io.x", "\0") is None
        assert await side.state_event(f"!no:{backend_setup.domain}", "io.x") is None
        await refused(side.state(f"!no:{backend_setup.domain}"), "M_NOT_FOUND")
        async with backend_setup.again() as again:
            assert {(e.type, e.state_key): e for e in await again.state(room_id)} == {
                (e.type, e.state_key): e for e in await side.state(room_id)
            }

    @pytest.mark.parametrize("who", ["ours", "a person"])
    @pytest.mark.parametrize(
        ("visibility", "seen"),
        [
            ("world_readable", ["before", "invited", "joined", "left"]),
            ("shared", ["joined"]),
            ("invited", ["invited", "joined"]),
            ("joined", ["joined"]),
        ],
    )
    async def test_history_visibility(
        self, backend_setup: BackendSetup, visibility: str, seen: list[str], who: str
    ) -> None:
        """By the membership at the time. The node itself reads everything."""
        alice = await backend_setup.user("alice")
        bob = None if who == "ours" else await backend_setup.person()
        reader = await backend_setup.user("eve") if bob is None else bob.user_id
        side = backend_setup.side
        room_id = await backend_setup.room(alice, history_visibility=visibility)
        ids = {"before": await backend_setup.say(room_id, alice, "before")}
        await side.invite(room_id, alice, reader)
        ids["invited"] = await backend_setup.say(room_id, alice, "invited")
        if bob is None:
            await side.join(room_id, reader)
        else:
            await bob.wait_for_invite(room_id)
            await backend_setup.come(bob, room_id)
        ids["joined"] = await backend_setup.say(room_id, alice, "joined")
        if visibility == "shared":
            # Members see earlier messages.
            assert bodies(await all_of(backend_setup, room_id, 50, reader)) == ["joined", "invited", "before"]
        if bob is None:
            await side.leave(room_id, reader)
        else:
            await bob.wait_for_event(ids["joined"])
            await bob.leave(room_id)
            await backend_setup.until_member(room_id, reader, "leave")
        ids["left"] = await backend_setup.say(room_id, alice, "left")
        assert bodies(await all_of(backend_setup, room_id, 3, reader)) == seen[::-1]
        for body, event_id in ids.items():
            event = await side.event(room_id, event_id, reader=reader)
            assert (event is not None) == (body in seen)
            context = await side.context(room_id, event_id, reader=reader)
            assert (context is not None) == (body in seen)
        assert len(bodies(await all_of(backend_setup, room_id, 50))) == 4
        # A user's own membership events are always visible.
        own = [event for event in await all_of(backend_setup, room_id, 50, reader) if event.state_key == reader]
        assert {"join", "leave"} <= {event.content["membership"] for event in own}

    async def test_history_visibility_of_relations(self, backend_setup: BackendSetup) -> None:
        """Like other events."""
        alice, eve = await backend_setup.user("alice"), await backend_setup.user("eve")
        room_id = await backend_setup.room(alice, history_visibility="joined")
        root = await backend_setup.say(room_id, alice, "root")
        early = await backend_setup.side.send(room_id, alice, "m.room.message", in_thread(root, text("early")))
        await backend_setup.side.join(room_id, eve)
        late = await backend_setup.side.send(room_id, alice, "m.room.message", in_thread(root, text("late")))
        assert [one.event_id for one in await backend_setup.side.relations(room_id, root)] == [early, late]
        seen = await backend_setup.side.relations(room_id, root, "m.thread", reader=eve)
        assert [one.event_id for one in seen] == [late]
