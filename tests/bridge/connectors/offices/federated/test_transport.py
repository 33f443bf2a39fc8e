"""Requests and answers on their way through a room."""

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import Any

from nacl.signing import SigningKey

from bridge.connectors.offices.federated.messages import MOST_BYTES, InFile, Inline, Request, Response, read
from bridge.connectors.offices.federated.sealing import Sealing
from bridge.connectors.offices.federated.shared_room import Present
from bridge.connectors.offices.federated.transport import Carrying
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import Relay
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.connectors.offices.connectors import room_parts
from tests.federation.nodes import Node

BOSS, HANDS = "@boss:here.test", "@hands:here.test"


def relay(said: dict[str, Any] | None = None) -> Relay:
    boss, hands = Member("a", AGENT, "boss", "o"), Member(HANDS, COMPUTER, "hands", "o")
    asked = {"agent": "x", "req_id": "1", "computer": "hands", **(said or {})}
    return Relay(CLIENT_EVENTS["client:get_tools"], boss, hands, asked, 60.0)


class Stage:
    """One node plays both: what is asked is read from the room."""

    def __init__(self, node: Node, room_id: str, problems: list[str]) -> None:
        key = SigningKey(b"k" * 32)
        self.node, self.room_id, self.problems = node, room_id, problems
        self.sealing = Sealing(lambda: key)
        self.carrying = Carrying(room_parts(node, problems), self.sealing)
        self.there = Present(HANDS, COMPUTER, "hands", None, self.sealing.box)
        self.asker = Present(BOSS, AGENT, "boss", None, self.sealing.box)
        self.answers: list[Any] = []

    async def ask(self, **said: Any) -> Request:
        await self.carrying.ask(self.room_id, BOSS, self.there, relay(said), self.answers.append)
        page = await self.node.rooms.messages(self.room_id, limit=1)
        [event] = page.events
        request = read(event.type, event.content)
        assert isinstance(request, Request)
        return request

    def sealed(self, id_: str, said: Any, sender: str = HANDS) -> Inline:
        return Inline(b64encode(Sealing.seal(self.sealing.box, id_, sender, said)).decode())


async def stage(node: Node) -> Stage:
    for user in (BOSS, HANDS):
        await node.rooms.ensure_user(user)
    made = await node.rooms.create_room(CreateRoomRequest(creator=BOSS, preset="public_chat"))
    await node.rooms.join(made.room_id, HANDS)
    return Stage(node, made.room_id, [])


async def test_the_first_answer_counts(node: Node) -> None:
    """By who was asked, to who has asked."""
    play = await stage(node)
    request = await play.ask()
    assert (request.to, request.event) == (HANDS, "client:get_tools")
    said = await play.carrying.open(request.body, request.id, BOSS)
    assert said == dict(relay().said)
    good = Response(request.id, BOSS, play.sealed(request.id, {"n": 1}))
    await play.carrying.hear("@mallory:there.test", good)
    await play.carrying.hear(HANDS, replace(good, to="@other:here.test"))
    await play.carrying.hear(HANDS, replace(good, id="f" * 32))
    assert play.answers == []
    await play.carrying.hear(HANDS, good)
    assert play.answers == [{"n": 1}]


async def test_what_cannot_be_read_is_an_answer_too(node: Node) -> None:
    """Nobody waits for another one."""
    play = await stage(node)
    sealed = Sealing.seal(play.sealing.box, "0" * 32, HANDS, {})
    info = await node.rooms.upload(HANDS, sealed)
    digest = sha256(sealed).hexdigest()
    for body in (
        Inline("no base64"),
        Inline(b64encode(b"not sealed").decode()),
        play.sealed("0" * 32, {}),
        InFile(str(info.mxc), digest, len(sealed)),  # sealed for another request
        InFile(str(info.mxc), "0" * 64, len(sealed)),
        InFile(str(info.mxc), digest, 5),
        InFile("mxc://here.test/nothing", digest, 5),
        InFile("nonsense", digest, 5),
    ):
        request = await play.ask()
        await play.carrying.hear(HANDS, Response(request.id, BOSS, body))
        assert play.answers.pop()["code"] == 500, body
    assert len(play.problems) == 8


async def test_what_has_no_room_in_an_event_is_a_file(node: Node) -> None:
    """And what has none in a file is not asked."""
    play = await stage(node)
    request = await play.ask(blob="x" * 100_000)
    assert isinstance(request.body, InFile)
    said = await play.carrying.open(request.body, request.id, BOSS)
    assert said["blob"] == "x" * 100_000
    await play.carrying.ask(
        play.room_id, BOSS, play.there, relay({"blob": "x" * MOST_BYTES}), play.answers.append
    )
    assert play.answers.pop()["code"] == 500


async def test_what_cannot_be_said_is_answered_at_once(node: Node) -> None:
    """By who is not in the room, by nobody, and to one without a key."""
    play = await stage(node)
    for speaker, there in (
        ("@stranger:here.test", play.there),
        ("", play.there),
        (BOSS, replace(play.there, box="none")),
    ):
        await play.carrying.ask(play.room_id, speaker, there, relay(), play.answers.append)
        assert play.answers.pop()["code"] == 500


async def test_who_is_forgotten_is_not_answered(node: Node) -> None:
    """What comes too late is nobody's."""
    play = await stage(node)
    forget = await play.carrying.ask(play.room_id, BOSS, play.there, relay(), play.answers.append)
    [event] = (await node.rooms.messages(play.room_id, limit=1)).events
    forget()
    id_ = event.content["id"]
    await play.carrying.hear(HANDS, Response(id_, BOSS, play.sealed(id_, {})))
    assert play.answers == []


async def test_an_answer_that_cannot_be_carried_says_so(node: Node) -> None:
    """Too large, or no JSON."""
    play = await stage(node)
    for answer in ({"blob": "x" * MOST_BYTES}, {"x": float}):
        request = await play.ask()
        await play.carrying.answer(play.room_id, request, "$asked", play.asker, answer)
        [event] = (await node.rooms.messages(play.room_id, limit=1)).events
        assert event.sender == HANDS
        response = read(event.type, event.content)
        assert isinstance(response, Response)
        await play.carrying.hear(HANDS, response)
        assert "cannot be carried" in play.answers.pop()["message"]
