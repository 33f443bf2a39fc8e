"""Requests and responses through a room."""

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import Any

from nacl.signing import SigningKey

from bridge.connectors.offices.federated.encryption import NodeCipher
from bridge.connectors.offices.federated.messages import MAX_BYTES, InFile, Inline, Request, Response, read
from bridge.connectors.offices.federated.shared_room import RemoteMember
from bridge.connectors.offices.federated.transport import RemoteCallTransport
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import RelayRequest
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.connectors.offices.connectors import room_parts
from tests.federation.nodes import Node

BOSS, HANDS = "@boss:here.test", "@hands:here.test"


def relay(fields: dict[str, Any] | None = None) -> RelayRequest:
    boss, hands = Member("a", AGENT, "boss", "o"), Member(HANDS, COMPUTER, "hands", "o")
    payload = {"agent": "x", "req_id": "1", "computer": "hands", **(fields or {})}
    return RelayRequest(CLIENT_EVENTS["client:get_tools"], boss, hands, payload, 60.0)


class Setup:
    """One node plays both sides. Requests are read from the room."""

    def __init__(self, node: Node, room_id: str, problems: list[str]) -> None:
        key = SigningKey(b"k" * 32)
        self.node, self.room_id, self.problems = node, room_id, problems
        self.cipher = NodeCipher(lambda: key)
        self.transport = RemoteCallTransport(room_parts(node, problems), self.cipher)
        self.target = RemoteMember(HANDS, COMPUTER, "hands", None, self.cipher.public_key)
        self.requester = RemoteMember(BOSS, AGENT, "boss", None, self.cipher.public_key)
        self.answers: list[Any] = []

    async def call(self, **fields: Any) -> Request:
        await self.transport.call(self.room_id, BOSS, self.target, relay(fields), self.answers.append)
        page = await self.node.rooms.messages(self.room_id, limit=1)
        [event] = page.events
        request = read(event.type, event.content)
        assert isinstance(request, Request)
        return request

    def sealed(self, id_: str, content: Any, sender: str = HANDS) -> Inline:
        return Inline(b64encode(NodeCipher.seal(self.cipher.public_key, id_, sender, content)).decode())


async def prepare(node: Node) -> Setup:
    for user in (BOSS, HANDS):
        await node.rooms.ensure_user(user)
    made = await node.rooms.create_room(CreateRoomRequest(creator=BOSS, preset="public_chat"))
    await node.rooms.join(made.room_id, HANDS)
    return Setup(node, made.room_id, [])


async def test_only_the_first_valid_response_counts(node: Node) -> None:
    """From the target of the request, to its sender."""
    setup = await prepare(node)
    request = await setup.call()
    assert (request.to, request.event) == (HANDS, "client:get_tools")
    content = await setup.transport.open(request.body, request.id, BOSS)
    assert content == dict(relay().payload)
    good = Response(request.id, BOSS, setup.sealed(request.id, {"n": 1}))
    await setup.transport.handle_response("@mallory:there.test", good)
    await setup.transport.handle_response(HANDS, replace(good, to="@other:here.test"))
    await setup.transport.handle_response(HANDS, replace(good, id="f" * 32))
    assert setup.answers == []
    await setup.transport.handle_response(HANDS, good)
    assert setup.answers == [{"n": 1}]


async def test_an_unreadable_response_becomes_an_error(node: Node) -> None:
    """The caller must not wait for another one."""
    setup = await prepare(node)
    sealed = NodeCipher.seal(setup.cipher.public_key, "0" * 32, HANDS, {})
    info = await node.rooms.upload(HANDS, sealed)
    digest = sha256(sealed).hexdigest()
    for body in (
        Inline("no base64"),
        Inline(b64encode(b"not sealed").decode()),
        setup.sealed("0" * 32, {}),
        InFile(str(info.mxc), digest, len(sealed)),  # sealed for another request
        InFile(str(info.mxc), "0" * 64, len(sealed)),
        InFile(str(info.mxc), digest, 5),
        InFile("mxc://here.test/nothing", digest, 5),
        InFile("nonsense", digest, 5),
    ):
        request = await setup.call()
        await setup.transport.handle_response(HANDS, Response(request.id, BOSS, body))
        assert setup.answers.pop()["code"] == 500, body
    assert len(setup.problems) == 8


async def test_large_content_is_sent_as_a_file(node: Node) -> None:
    """Content that is too large for a file is not sent."""
    setup = await prepare(node)
    request = await setup.call(blob="x" * 100_000)
    assert isinstance(request.body, InFile)
    content = await setup.transport.open(request.body, request.id, BOSS)
    assert content["blob"] == "x" * 100_000
    await setup.transport.call(
        setup.room_id, BOSS, setup.target, relay({"blob": "x" * MAX_BYTES}), setup.answers.append
    )
    assert setup.answers.pop()["code"] == 500


async def test_a_request_that_cannot_be_sent_is_answered_at_once(node: Node) -> None:
    """From a user who is not in the room, without a user id, or to a member without a key."""
    setup = await prepare(node)
    for sender, target in (
        ("@stranger:here.test", setup.target),
        ("", setup.target),
        (BOSS, replace(setup.target, public_key="none")),
    ):
        await setup.transport.call(setup.room_id, sender, target, relay(), setup.answers.append)
        assert setup.answers.pop()["code"] == 500


async def test_a_late_response_is_ignored(node: Node) -> None:
    """The request was dropped before."""
    setup = await prepare(node)
    stop_waiting = await setup.transport.call(setup.room_id, BOSS, setup.target, relay(), setup.answers.append)
    [event] = (await node.rooms.messages(setup.room_id, limit=1)).events
    stop_waiting()
    id_ = event.content["id"]
    await setup.transport.handle_response(HANDS, Response(id_, BOSS, setup.sealed(id_, {})))
    assert setup.answers == []


async def test_an_answer_that_cannot_be_sent_becomes_an_error(node: Node) -> None:
    """It is too large, or cannot be written as JSON."""
    setup = await prepare(node)
    for answer in ({"blob": "x" * MAX_BYTES}, {"x": float}):
        request = await setup.call()
        await setup.transport.answer(setup.room_id, request, "$asked", setup.requester, answer)
        [event] = (await node.rooms.messages(setup.room_id, limit=1)).events
        assert event.sender == HANDS
        response = read(event.type, event.content)
        assert isinstance(response, Response)
        await setup.transport.handle_response(HANDS, response)
        assert "cannot be sent to another node" in setup.answers.pop()["message"]
