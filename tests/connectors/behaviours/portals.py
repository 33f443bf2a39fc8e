"""What people experience with agents in rooms, on either backend."""

import asyncio
from contextlib import suppress
from pathlib import Path

from bridge.people.service.messenger import CANNOT_READ
from tests.connectors.portal import Portal
from tests.connectors.stream_recorder import TIMEOUT
from tests.interop.staffed_node import answers, edits, is_said, relation, says
from tests.support.driven_node.walking import Person
from tests.support.matrix_client.seen import Event

ENCRYPTED = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}


async def until_reaction(who: Person, event_id: str, sign: str) -> Event:
    """Wait until a user has reacted with it."""
    return await who.wait_for(lambda event: relation(event) == ("m.annotation", event_id, sign))


async def written(portal: Portal, name: str) -> str:
    """The content of the file that the cook writes."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            with suppress(FileNotFoundError):
                if (text := (portal.directory / "cook" / name).read_text()).endswith("\n"):
                    return text.strip()
            await asyncio.sleep(0.02)


async def until_gone(pid: str) -> None:
    """Wait until the process has ended and its starter knows."""
    async with asyncio.timeout(TIMEOUT):
        while Path("/proc", pid).exists():
            await asyncio.sleep(0.02)


async def asked_again(portal: Portal) -> None:
    """All previous messages have been sent."""
    asked = await portal.mention(portal.alice, "baker", "Is anything left?")
    await portal.alice.wait_for(answers(asked, "Is anything left?", sender=portal.user("baker")))


class PortalsBehave:
    async def test_agent_room_is_found(self, portal: Portal) -> None:
        """By alias and in the directory; its agents have names and avatars."""
        backend_setup, bob = portal.backend_setup, portal.bob
        assert await bob.join(backend_setup.alias("agents-default")) == portal.room_id
        listed = await bob.public_rooms(server=backend_setup.domain)
        assert portal.room_id in [room["room_id"] for room in listed]
        for user, name in (
            (portal.user("cook"), "cook"),
            (portal.user("baker"), "The baker"),
            (portal.node_user, "Palaver"),
        ):

            async def is_there(user: str = user, name: str = name) -> bool:
                members = await bob.joined_members(portal.room_id)
                return user in members and members[user]["display_name"] == name

            async with asyncio.timeout(TIMEOUT):
                while not await is_there():
                    await asyncio.sleep(0.05)
            profile = await bob.profile(user)
            assert profile["displayname"] == name
            assert (await bob.download(profile["avatar_url"])).content_type == "image/png"

    async def test_mention_and_answer(self, portal: Portal) -> None:
        """The answer in a thread marks completion. A reply in the thread passes on its context."""
        alice, cook = portal.alice, portal.user("cook")
        asked = await portal.mention(alice, "cook", r"printf 'All of **them**, <b>all</b>.'")
        answer = await alice.wait_for(answers(asked, "All of **them**", sender=cook))
        assert answer["content"]["m.relates_to"] == {
            "rel_type": "m.thread",
            "event_id": asked,
            "m.in_reply_to": {"event_id": asked},
            "is_falling_back": True,
        }
        assert answer["content"].get("m.mentions", {}) == {}
        assert answer["content"]["formatted_body"] == ("<p>All of <strong>them</strong>, &lt;b&gt;all&lt;/b&gt;.</p>")
        await alice.reply_in_thread(portal.room_id, asked, 'printf "%s" "$PALAVER_TASK_CONTEXT" | sed "s/^/| /"')
        context = await alice.wait_for(answers(asked, "| ", sender=cook))
        assert f"| {alice.user_id}: cook: printf" in context["content"]["body"]
        assert f"| {cook}: All of **them**" in context["content"]["body"]

    async def test_names_of_an_agent(self, portal: Portal) -> None:
        """Address, user, and the part before the @."""
        alice = portal.alice
        for name in (str(portal.address("baker")), portal.user("baker"), "@baker", "@baker:"):
            asked = await alice.say(portal.room_id, f"{name} a cake")
            await alice.wait_for(answers(asked, "a cake", sender=portal.user("baker")))

    async def test_progress_in_one_message(self, portal: Portal) -> None:
        """A task between agents has a thread too, started by the node: its progress is edited and ends with
        the answer, which the requester also receives."""
        alice = portal.alice
        name = portal.backend_setup.named("peeled")
        script = f"echo peeling >&2; until [ -e {name} ]; do sleep 0.05; done; echo cutting >&2; echo Soup."
        await portal.ask(name, "cook", f"{script} # {name}")
        root = await alice.wait_for(says("⏳ coordinator@kitchen asks", name))
        assert root["sender"] == portal.node_user
        thread = root["event_id"]
        progress = await alice.wait_for(answers(thread, "peeling", sender=portal.user("cook")))
        (portal.directory / "cook" / name).touch()
        answer = await alice.wait_for(answers(thread, "Soup.", sender=portal.user("cook")))
        await alice.wait_for(edits(thread, "✅ coordinator@kitchen"))
        shown = await alice.relations(portal.room_id, thread, "m.thread")
        assert {event["event_id"] for event in shown} == {progress["event_id"], answer["event_id"]}
        async with asyncio.timeout(TIMEOUT):
            while (task := await portal.requester.answered.get()).key.request_id != name:
                pass
        assert task.answer is not None
        assert task.answer.success

    async def test_failure(self, portal: Portal) -> None:
        """With advice."""
        alice = portal.alice
        asked = await portal.mention(alice, "cook", "echo 'Half a pie.'; echo 'No flour!' >&2; exit 3")
        told = await alice.wait_for(answers(asked, "exit code 3", "Half a pie."))
        for part in ("No flour!", "Reply to this message to continue"):
            assert part in told["content"]["body"]
        await until_reaction(alice, asked, "❌")

    async def test_cancel_by_reaction(self, portal: Portal) -> None:
        """The command ends, and the thread names the person."""
        alice = portal.alice
        name = portal.backend_setup.named("pid")
        asked = await portal.mention(alice, "cook", f"echo $$ >{name}; sleep 1000")
        pid = await written(portal, name)
        await alice.react(portal.room_id, asked, "❌")
        await alice.wait_for(answers(asked, f"❌ Cancelled by {alice.user_id}."))
        await until_reaction(alice, asked, "❌")
        await until_gone(pid)

    async def test_cancel_by_command(self, portal: Portal) -> None:
        """In its thread, and by number in a chat with the node."""
        alice = portal.alice
        for by_word in (True, False):
            name = portal.backend_setup.named("task")
            asked = await portal.mention(
                alice, "cook", f"echo $PALAVER_TASK_ID >{name}; echo $$ >{name}.pid; sleep 1000"
            )
            number, pid = await written(portal, name), await written(portal, f"{name}.pid")
            if by_word:
                await alice.reply_in_thread(portal.room_id, asked, "cancel")
            else:
                chat = await portal.chat(alice, portal.node_user)
                await alice.say(chat, f"cancel {number} too late")
                await alice.wait_for(says(f"❌ {number}", "cancelled"), room_id=chat)
            await until_reaction(alice, asked, "❌")
            await until_gone(pid)

    async def test_missing_permission_names_the_rule(self, portal: Portal) -> None:
        """And nothing happens."""
        bob = portal.bob
        await bob.join(portal.room_id, via=[portal.backend_setup.domain])
        name = portal.backend_setup.named("refused")
        await portal.mention(bob, "cook", f"echo hello >{name}")
        refusal = await bob.wait_for(
            says(
                'You need the permission "work" to give tasks',
                f'for {bob.user_id} the rule "*" = "look"',
                sender=portal.node_user,
            )
        )
        assert refusal["content"]["m.mentions"] == {"user_ids": [bob.user_id]}
        await asked_again(portal)
        assert not (portal.directory / "cook" / name).exists()

    async def test_person_without_access_is_removed(self, portal: Portal) -> None:
        """From a public room, with the deciding rule."""
        eve = portal.eve
        await eve.join(portal.room_id, via=[portal.backend_setup.domain])
        await portal.backend_setup.until_member(portal.room_id, eve.user_id, "leave")
        shown_out = await portal.backend_setup.state(portal.room_id, "m.room.member", eve.user_id)
        assert f'the rule "{eve.user_id}" = "none"' in shown_out["reason"]

    async def test_invites_to_agents(self, portal: Portal) -> None:
        """An agent joins a chat, where it needs no mention, and a room, where it does; people without
        permission get the reason."""
        alice, bob, baker = portal.alice, portal.bob, portal.user("baker")
        chat = await portal.chat(alice, baker)
        asked = await alice.say(chat, "Only we are here.")
        await alice.wait_for(says("Only we are here.", sender=baker), room_id=chat)

        room_id = await alice.create_room(name="The garden", invite=[bob.user_id])
        await bob.wait_for_invite(room_id)
        await bob.join(room_id, via=[alice.server_name])
        await alice.invite(room_id, baker)
        await alice.wait_for_member(room_id, baker, "join")
        await alice.say(room_id, "The roses are lovely this year.")
        asked = await portal.mention(alice, "baker", "A cake, please.", room_id)
        await bob.wait_for(answers(asked, "A cake, please.", sender=baker), room_id=room_id)
        said = [event for event in await bob.history(room_id) if event["type"] == "m.room.message"]
        assert len(said) == 3

        room_id = await bob.create_room(invite=[baker])
        rejected = await bob.wait_for_member(room_id, baker, "leave")
        assert f'for {bob.user_id} the rule "*" = "look"' in rejected["content"]["reason"]

    async def test_chat_with_the_node(self, portal: Portal) -> None:
        """With names of its own domain."""
        alice = portal.alice
        chat = await portal.chat(alice, portal.node_user)
        await alice.wait_for(says('Send "help"', sender=portal.node_user), room_id=chat)
        for line, part in (
            ("help", "- cancel ID [REASON]"),
            ("agents", f"- {portal.address('baker')} · "),
            ("rooms", portal.backend_setup.alias("agents-default")),
            ("task nothing", 'No task "nothing" was found.'),
            ("agnets", 'Did you mean "agents"?'),
        ):
            asked = await alice.say(chat, line)

            def is_answer(event: Event, asked: str = asked, part: str = part) -> bool:
                relates = event["content"].get("m.relates_to", {})
                replied = relates.get("m.in_reply_to", {}).get("event_id") == asked
                return replied and part in event["content"]["body"]

            await alice.wait_for(is_answer, room_id=chat)

    async def test_encrypted_room_gets_one_notice(self, portal: Portal) -> None:
        """Whenever encryption was enabled, however many agents and messages there are."""
        alice = portal.alice
        agents = [portal.user("cook"), portal.user("baker")]
        early, late = await alice.create_room(), await alice.create_room(invite=agents[:1])
        await portal.backend_setup.encrypt(alice, early)
        for agent in agents:
            await alice.invite(early, agent)
            await alice.wait_for_member(early, agent, "join")
        await alice.wait_for_member(late, agents[0], "join")
        await portal.backend_setup.encrypt(alice, late)
        for room_id in (early, late):
            for _ in range(3):
                await alice.send(room_id, "m.room.encrypted", ENCRYPTED)
            await alice.wait_for(says(CANNOT_READ), room_id=room_id)
        # Invites and messages are handled in order.
        await portal.chat(alice, agents[0])
        await asked_again(portal)
        for room_id in (early, late):
            said = [
                event["content"]["body"]
                for event in await alice.history(room_id)
                if event["sender"] in agents and event["type"] == "m.room.message"
            ]
            assert said == [CANNOT_READ]

    async def test_agent_output_is_inert(self, portal: Portal) -> None:
        """No HTML, no mentions, and long output becomes a file."""
        alice = portal.alice
        words = (
            f'<img src=x onerror=alert(1)> <a href="https://matrix.to/#/{alice.user_id}">alice</a> @room'
            f" {alice.user_id} <script>alert(1)</script> !agents agents"
        )
        asked = await portal.mention(alice, "baker", words)
        answer = await alice.wait_for(answers(asked, "onerror", sender=portal.user("baker")))
        assert answer["content"]["m.mentions"] == {}
        for tag in ("<img", "<a ", "<script"):
            assert tag not in answer["content"]["formatted_body"]
        asked = await portal.mention(alice, "cook", "seq 1 300")
        sent = await alice.wait_for(
            lambda event: event["content"].get("msgtype") == "m.file" and relation(event)[1] == asked
        )
        file = await alice.download(sent["content"]["url"])
        assert file.data.split() == [str(number).encode() for number in range(1, 301)]

    async def test_restart_repeats_nothing(self, portal: Portal) -> None:
        """Without its stream position a restarted node starts no task twice and sends nothing again."""
        alice = portal.alice
        name = portal.backend_setup.named("once")
        asked = await portal.mention(alice, "cook", f"echo x >>{name}; echo Done with {name}.")
        await alice.wait_for(answers(asked, f"Done with {name}."))
        await portal.ask(name, "baker", f"Bread and {name}.")
        await alice.wait_for(says("✅ coordinator@kitchen asks", name))
        await asked_again(portal)
        before = await shown(portal)
        await portal.end()
        await portal.forget_what_was_read()
        await portal.begin()
        await asked_again(portal)
        after = await shown(portal)
        assert after[: len(before)] == before
        # The last request and its answer; and a reaction, where it was queued.
        assert len(after) in {len(before) + 2, len(before) + 3}
        assert (portal.directory / "cook" / name).read_text() == "x\n"

    async def test_no_problems_were_reported(self, portal: Portal) -> None:
        """In all previous tests."""
        assert portal.notebook.problems == []


async def shown(portal: Portal) -> list[str]:
    """All messages and current reactions in the agent room, oldest first."""
    events = await portal.alice.history(portal.room_id)
    return [
        event["event_id"] for event in events if is_said(event) or (event["type"] == "m.reaction" and event["content"])
    ]
