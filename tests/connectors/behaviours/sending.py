"""Sending events, setting state, redacting."""

import asyncio

import pytest

from federation.matrix.message_content import edit, in_thread, reaction, reply, text
from tests.connectors.setup import BackendSetup, bodies, refused, said
from tests.support.matrix_client.seen import Event

LONG_AGO = 1_600_000_000_000


class SendingBehaves:
    async def test_send_and_receive(self, backend_setup: BackendSetup) -> None:
        """With the given timestamp; replies of people arrive."""
        room_id, alice, bob = await backend_setup.meeting()
        content = {**text("hello", mentions=[bob.user_id]), "io.x": {"a": [1, None, True, "ü\0"]}}
        event_id = await backend_setup.side.send(room_id, alice, "m.room.message", content, ts=LONG_AGO)
        heard = await bob.wait_for_event(event_id)
        assert (heard["sender"], heard["type"], heard["origin_server_ts"]) == (alice, "m.room.message", LONG_AGO)
        assert said(heard["content"]) == content
        own = await backend_setup.until_event(event_id)
        assert (own.kind, own.event.sender, own.event.origin_server_ts) == ("timeline", alice, LONG_AGO)
        assert said(own.event.content) == content
        answered = await bob.send(room_id, "io.x.answer", {"n": 1})
        entry = await backend_setup.until_event(answered)
        assert (entry.event.type, entry.event.sender, entry.event.content) == ("io.x.answer", bob.user_id, {"n": 1})

    async def test_messages_relate_to_each_other(self, backend_setup: BackendSetup) -> None:
        """Edits, reactions, replies and threads, in both directions."""
        room_id, alice, bob = await backend_setup.meeting()
        side = backend_setup.side
        root = await backend_setup.say(room_id, alice, "hello")
        await bob.wait_for_event(root)
        theirs = [
            await bob.reply(room_id, root, "good day"),
            await bob.react(room_id, root, "👍"),
            await bob.reply_in_thread(room_id, root, "in the thread"),
        ]
        for event_id in theirs:
            await backend_setup.until_event(event_id)
        ours = [
            await side.send(room_id, alice, "m.room.message", edit(root, text("hello!"))),
            await side.send(room_id, alice, "m.reaction", reaction(root, "👎")),
            await side.send(room_id, alice, "m.room.message", in_thread(root, text("so am I"))),
            await side.send(room_id, alice, "m.room.message", reply(root, text("an answer"))),
        ]
        for event_id in ours:
            await bob.wait_for_event(event_id)
        assert {event["event_id"] for event in await bob.relations(room_id, root, "m.annotation")} == {
            theirs[1],
            ours[1],
        }
        [edited] = await bob.relations(room_id, root, "m.replace")
        assert edited["content"]["m.new_content"]["body"] == "hello!"
        # Oldest first, by type or all.
        for rel_type, ids in (
            (None, [*theirs, *ours]),
            ("m.thread", [theirs[2], ours[2]]),
            ("m.annotation", [theirs[1], ours[1]]),
            ("m.replace", [ours[0]]),
            ("m.in_reply_to", [theirs[0], ours[3]]),
            ("m.reference", []),
        ):
            related = await side.relations(room_id, root, rel_type)
            assert [event.event_id for event in related] == ids, rel_type

    async def test_transaction_id_is_idempotent(self, backend_setup: BackendSetup) -> None:
        """Concurrently, later, and after a restart. It is per sender and room."""
        room_id, alice, bob = await backend_setup.meeting()
        eve = await backend_setup.user("eve")
        await backend_setup.side.join(room_id, eve)
        other = await backend_setup.room(alice)
        sent = await asyncio.gather(
            *(backend_setup.say(room_id, alice, f"{n % 3}", transaction_id=f"{n % 3}") for n in range(9))
        )
        assert sent == sent[:3] * 3
        assert len(set(sent)) == 3
        for event_id in sent:
            await backend_setup.until_event(event_id)
        async with backend_setup.again() as again:
            for n in (1, 2):
                repeated = await again.send(
                    room_id, alice, "m.room.message", {"msgtype": "m.text", "body": f"{n}"},
                    transaction_id=f"{n}",
                )  # fmt: skip
                assert repeated == sent[n]
        others = [
            await backend_setup.say(room_id, eve, "1", transaction_id="1"),
            await backend_setup.say(other, alice, "1", transaction_id="1"),
        ]
        assert len({*sent, *others}) == 5
        last = await backend_setup.say(room_id, alice, "last")
        await bob.wait_for_event(last)
        heard = [event["content"]["body"] for event in bob_heard(await bob.history(room_id))]
        assert sorted(heard) == ["0", "1", "1", "2", "last"]

    async def test_event_sent_before_a_kill_is_found(self, backend_setup: BackendSetup) -> None:
        """Even if its response was lost and it is not pushed yet."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        for n in range(3):
            sent = await backend_setup.say(room_id, alice, "once", transaction_id=f"{n}")
            async with backend_setup.again() as again:
                content = {"msgtype": "m.text", "body": "once"}
                assert await again.send(room_id, alice, "m.room.message", content, transaction_id=f"{n}") == sent
        assert bodies(await backend_setup.events(room_id)) == ["once"] * 3

    async def test_order_of_events(self, backend_setup: BackendSetup) -> None:
        """Also for concurrent calls."""
        room_id, alice, bob = await backend_setup.meeting()
        wanted = [str(n) for n in range(20)]
        async with asyncio.TaskGroup() as group:
            sending = [
                group.create_task(backend_setup.say(room_id, alice, body, transaction_id=body)) for body in wanted
            ]
        await bob.wait_for_event(sending[-1].result())
        assert bodies(await backend_setup.events(room_id)) == wanted
        assert [event["content"]["body"] for event in bob_heard(await bob.history(room_id))] == wanted

    async def test_unchanged_state_is_not_sent(self, backend_setup: BackendSetup) -> None:
        """Unless it was redacted since."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        side = backend_setup.side
        first = await side.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"})
        assert await side.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"}) == first
        content = {"a": [1, {"b": None}], "c": True}
        other = await side.set_state(room_id, alice, "io.x", content, "key", ts=5)
        assert await side.set_state(room_id, alice, "io.x", content, "key") == other
        # 1 and True differ.
        assert await side.set_state(room_id, alice, "io.x", {**content, "c": 1}, "key") != other
        async with backend_setup.again() as again:
            assert await again.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"}) == first
        event = await side.event(room_id, other)
        assert event is not None
        assert (event.origin_server_ts, event.state_key) == (5, "key")
        await side.redact(room_id, alice, first)
        again_set = await side.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"})
        assert again_set != first
        topic = await backend_setup.state(room_id, "m.room.topic")
        assert topic == {"topic": "Soup"}

    async def test_state_set_by_people(self, backend_setup: BackendSetup) -> None:
        """Is visible, and not sent again if unchanged."""
        room_id, alice, bob = await backend_setup.meeting(power_levels={"state_default": 0})
        set_by_bob = await bob.set_state(room_id, "io.x", {"n": 1}, "key")
        await backend_setup.until_event(set_by_bob)
        assert await backend_setup.state(room_id, "io.x", "key") == {"n": 1}
        assert await backend_setup.side.set_state(room_id, alice, "io.x", {"n": 1}, "key") == set_by_bob

    @pytest.mark.parametrize("version", ["10", "11", "12"])
    async def test_redaction(self, backend_setup: BackendSetup, version: str) -> None:
        """Of own events, and with the power level of others'; redactions by people are applied."""
        room_id, alice, bob = await backend_setup.meeting(version=version)
        eve = await backend_setup.user("eve")
        await backend_setup.side.join(room_id, eve)
        said_by_eve = [await backend_setup.say(room_id, eve, f"{n}") for n in range(2)]
        said_by_bob = [await bob.say(room_id, f"{n}") for n in range(2)]
        for event_id in said_by_bob:
            await backend_setup.until_event(event_id)
        side = backend_setup.side
        await refused(side.redact(room_id, eve, said_by_bob[0]), "M_FORBIDDEN")
        fay = await backend_setup.user("fay")
        await refused(side.redact(room_id, fay, said_by_eve[0]), "M_FORBIDDEN")
        redaction = await side.redact(room_id, eve, said_by_eve[0])
        await side.redact(room_id, alice, said_by_eve[1], reason="rude")
        last = await side.redact(room_id, alice, said_by_bob[0])
        await bob.redact(room_id, said_by_bob[1])
        await bob.wait_for_event(last)

        async def is_gone(event_id: str = said_by_bob[1]) -> bool:
            event = await side.event(room_id, event_id)
            return event is not None and event.is_redacted

        await backend_setup.until_so(is_gone)
        for event_id in (*said_by_eve, *said_by_bob):
            event = await side.event(room_id, event_id)
            assert event is not None
            assert (event.is_redacted, event.content) == (True, {})
            assert (await bob.event(room_id, event_id))["content"] == {}
        seen = await side.event(room_id, redaction)
        assert seen is not None
        assert seen.redacts == said_by_eve[0]
        for unknown in ("$unknown", "", "\0", "$" + "x" * 300):
            await refused(side.redact(room_id, alice, unknown), "M_NOT_FOUND")

    async def test_repeated_redaction(self, backend_setup: BackendSetup) -> None:
        """With a transaction id."""
        alice = await backend_setup.user("alice")
        room_id = await backend_setup.room(alice)
        event_id = await backend_setup.say(room_id, alice, "oops")
        first = await backend_setup.side.redact(room_id, alice, event_id, reason="oops", transaction_id="r")
        assert await backend_setup.side.redact(room_id, alice, event_id, transaction_id="r") == first
        async with backend_setup.again() as again:
            assert await again.redact(room_id, alice, event_id, transaction_id="r") == first
        redactions = [event for event in await backend_setup.events(room_id) if event.redacts == event_id]
        assert [event.event_id for event in redactions] == [first]

    async def test_invalid_events_are_refused(self, backend_setup: BackendSetup) -> None:
        """Events with their own operations, invalid events, and forbidden ones."""
        room_id, alice, bob = await backend_setup.meeting()
        eve = await backend_setup.user("eve")
        message = {"msgtype": "m.text", "body": "x"}
        send, set_state = backend_setup.side.send, backend_setup.side.set_state
        type_ = "m.room.message"
        for asked, errcode in (
            (send(room_id, eve, type_, message), "M_FORBIDDEN"),
            (send(f"!no:{backend_setup.domain}", alice, type_, message), "M_NOT_FOUND"),
            (send("!\0:x", alice, type_, message), "M_NOT_FOUND"),
            (send("", alice, type_, message), "M_NOT_FOUND"),
            (send(room_id, alice, "m.room.redaction", {"redacts": "$1"}), "M_INVALID_PARAM"),
            (send(room_id, alice, type_, message, transaction_id=""), "M_INVALID_PARAM"),
            (send(room_id, alice, type_, message, transaction_id="\0"), "M_INVALID_PARAM"),
            (send(room_id, alice, type_, message, transaction_id="x" * 256), "M_INVALID_PARAM"),
            (send(room_id, alice, type_, message, ts=-1), "M_INVALID_PARAM"),
            (send(room_id, alice, type_, message, ts=2**53), "M_INVALID_PARAM"),
            (send(room_id, alice, type_, {"body": 1.5}), "M_BAD_JSON"),
            (send(room_id, alice, type_, {"body": 2**53}), "M_BAD_JSON"),
            (send(room_id, alice, type_, {"body": "x" * 70_000}), "M_BAD_JSON"),
            (send(room_id, alice, type_, {"body": "\ud800"}), "M_BAD_JSON"),
            (send(room_id, alice, "t" * 300, {}), "M_BAD_JSON"),
            (set_state(room_id, alice, "io.x", {}, "k" * 300), "M_BAD_JSON"),
            (set_state(room_id, alice, "m.room.member", {"membership": "join"}, eve), "M_INVALID_PARAM"),
            (set_state(room_id, alice, "m.room.encryption", {"algorithm": "x"}), "M_INVALID_PARAM"),
            (set_state(room_id, alice, "m.room.server_acl", {"allow": ["x"]}), "M_INVALID_PARAM"),
            (set_state(room_id, eve, "m.room.topic", {"topic": "x"}), "M_FORBIDDEN"),
            (set_state(room_id, alice, "io.x", {}, bob.user_id), "M_FORBIDDEN"),
        ):
            await refused(asked, errcode)
        assert bodies(await backend_setup.events(room_id)) == []

    async def test_large_message(self, backend_setup: BackendSetup) -> None:
        """Up to the size limit of events."""
        room_id, alice, bob = await backend_setup.meeting()
        event_id = await backend_setup.say(room_id, alice, "ü" * 29_000)
        assert (await bob.wait_for_event(event_id))["content"]["body"] == "ü" * 29_000


def bob_heard(events: list[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "m.room.message"]
