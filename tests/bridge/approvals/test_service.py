"""Questions for approval in a thread, and their verdicts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge.approvals.approval import Approved, Expired, Refused, Verdict, Withdrawn
from bridge.approvals.service import Approvals, Question, Thread
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.permissions import Level, Rights
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import Text
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import in_thread, reaction, text
from federation.rooms.creation import CreateRoomRequest
from tests.federation.nodes import Node, nodes
from tests.support.agents import Clock
from tests.support.postgres import Server

TIMEOUT = 30.0
HERE = "here.test"
NODE, ALICE, BOB = (f"@{name}:{HERE}" for name in ("palaver", "alice", "bob"))
RIGHTS = Rights({"*": Level.LOOK, ALICE: Level.ADMINISTER})


@dataclass
class Room:
    node: Node
    clock: Clock
    approvals: Approvals
    thread: Thread

    def decide(self, question: Question) -> "tuple[asyncio.Task[Verdict], asyncio.Future[Text]]":
        withdrawn: asyncio.Future[Text] = asyncio.get_running_loop().create_future()
        return asyncio.create_task(self.approvals.decide(question, self._thread, withdrawn)), withdrawn

    async def _thread(self) -> Thread:
        return self.thread

    async def said(self, part: str) -> RoomEvent:
        async with asyncio.timeout(TIMEOUT):
            while True:
                found = await self.all_said(part)
                if found:
                    return found[0]
                await asyncio.sleep(0.02)

    async def all_said(self, part: str) -> list[RoomEvent]:
        page = await self.node.rooms.messages(self.thread.room_id, limit=200)
        return [event for event in page.events if part in str(event.content.get("body"))]

    async def send(self, user: str, type_: str, content: Any) -> bool:
        """Whether it was an answer to a question that is open."""
        event_id = await self.node.rooms.send(self.thread.room_id, user, type_, content)
        page = await self.node.rooms.messages(self.thread.room_id, limit=200)
        return self.approvals.handle(next(one for one in page.events if one.event_id == event_id))


def question(name: str, *approvers: str, seconds: float = 60.0) -> Question:
    return Question(f"test/{name}", Text.of(f"boss wants {name}"), "session", seconds, approvers)


@asynccontextmanager
async def room(server: Server, template: str) -> AsyncIterator[Room]:
    async with nodes(server, template) as some:
        [here] = await some.start(HERE)
        for user in (NODE, ALICE, BOB):
            await here.rooms.ensure_user(user)
        created = await here.rooms.create_room(CreateRoomRequest(creator=NODE, invite=(ALICE, BOB)))
        for user in (ALICE, BOB):
            await here.rooms.join(created.room_id, user)
        root = await here.rooms.send(created.room_id, NODE, "m.room.message", text("A session."))
        settings = PeopleSettings(names=HomeserverGhostNames(HERE), rights=RIGHTS)
        clock = Clock()
        yield Room(
            here, clock, Approvals(here.rooms, here.database, settings, now_ms=clock), Thread(created.room_id, root)
        )


async def test_an_approver_decides(postgres_server: Server, migrated_template: str) -> None:
    """With a reaction or a word in the thread. Without approvers, people with the permission `administer`
    decide."""
    async with room(postgres_server, migrated_template) as one:
        deciding, _ = one.decide(question("walk"))
        asked = await one.said("boss wants walk. React with ✅ to approve or ❌ to refuse within 60 s.")
        assert await one.send(BOB, "m.reaction", reaction(asked.event_id, "✅"))
        await one.said(f"{BOB} may not decide about this session, so the answer does not count.")
        assert not deciding.done()
        assert await one.send(ALICE, "m.reaction", reaction(asked.event_id, "✅"))
        assert await deciding == Approved(ALICE)
        await one.said(f"✅ {ALICE} has approved this.")
        assert not await one.send(ALICE, "m.room.message", in_thread(one.thread.root, text("no")))
        deciding, _ = one.decide(question("run", BOB))
        await one.said("boss wants run")
        assert await one.send(BOB, "m.room.message", in_thread(one.thread.root, text("what is that?")))
        assert await one.send(BOB, "m.room.message", in_thread(one.thread.root, text("no")))
        assert await deciding == Refused(BOB)


async def test_a_question_expires_or_is_withdrawn(postgres_server: Server, migrated_template: str) -> None:
    """The thread has the reason."""
    async with room(postgres_server, migrated_template) as one:
        deciding, _ = one.decide(question("sleep", seconds=0.5))
        assert await deciding == Expired()
        deciding, withdrawn = one.decide(question("sing"))
        await one.said("boss wants sing")
        withdrawn.set_result(Text.of("boss has changed its mind."))
        verdict = await deciding
        assert isinstance(verdict, Withdrawn)
        await one.said("❌ boss has changed its mind.")


async def test_a_repeated_question_is_the_same_message(postgres_server: Server, migrated_template: str) -> None:
    """Its reference identifies it after a kill."""
    async with room(postgres_server, migrated_template) as one:
        for _ in range(2):
            deciding, _withdrawn = one.decide(question("walk"))
            await one.said("boss wants walk")
            deciding.cancel()
            await asyncio.gather(deciding, return_exceptions=True)
        assert len(await one.all_said("boss wants walk")) == 1


async def test_a_verdict_is_stored(postgres_server: Server, migrated_template: str) -> None:
    """A repeated question has the same verdict."""
    async with room(postgres_server, migrated_template) as one:
        for answer, verdict in (("yes", Approved(ALICE)), ("no", Refused(ALICE))):
            deciding, _ = one.decide(question(answer))
            await one.said(f"boss wants {answer}")
            await one.send(ALICE, "m.room.message", in_thread(one.thread.root, text(answer)))
            assert await deciding == verdict
            deciding, _ = one.decide(question(answer))
            assert await deciding == verdict
        assert len(await one.all_said("boss wants yes")) == 1


async def test_the_deadline_does_not_move(postgres_server: Server, migrated_template: str) -> None:
    """A question expires while no process waits for it."""
    async with room(postgres_server, migrated_template) as one:
        deciding, _ = one.decide(question("walk", seconds=60.0))
        await one.said("boss wants walk")
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        one.clock.advance(60_000)
        deciding, _ = one.decide(question("walk", seconds=60.0))
        assert await deciding == Expired()
