"""The interpretation of events in rooms."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.agents.address import AgentAddress, BareAgentId
from bridge.agents.routing import Local, Remote, Route, Unknown
from bridge.people.commands import COMMANDS, Invocation, UnknownCommand
from bridge.people.interpret import (
    MAX_AGE_MS,
    AgentRequest,
    Cancellation,
    EncryptedMessage,
    Interpretation,
    InterpreterContext,
    InvalidRequest,
    NodeCommand,
    RequestEdit,
    RequestRedaction,
    interpret,
    related_events,
)
from bridge.people.message import TaskMessages
from bridge.people.room import RoomContext, RoomKind
from bridge.people.texts.text import Kind as Said
from bridge.people.texts.text import Text, content_of
from bridge.tasks.errors import ErrorCode
from bridge.tasks.request import TaskKey
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import edit, in_thread, reaction, reply, text
from tests.support.agents import address

NOW = 10**12
NODE, WORKER_USER, KITCHEN_USER = "@palaver:here.test", "@worker:here.test", "@worker:kitchen.test"
ALICE, BOB = "@alice:there.test", "@bob:there.test"
WORKER, HELPER, KITCHEN = (address(one) for one in ("worker@here.test", "helper@here.test", "worker@kitchen.test"))
USERS = {WORKER_USER: WORKER, "@helper:here.test": HELPER, KITCHEN_USER: KITCHEN}


def route(target: AgentAddress | BareAgentId) -> Route:
    if target in {WORKER, HELPER}:
        assert isinstance(target, AgentAddress)
        return Local(target)
    if target == KITCHEN:
        return Remote(KITCHEN, None)
    if target in {BareAgentId("worker"), BareAgentId("helper")}:
        return Local(AgentAddress(target.agent_id, "here.test"))
    return Unknown(ErrorCode.AGENT_NOT_FOUND, "No such agent is known.", (WORKER,))


CONTEXT = InterpreterContext(
    NODE,
    lambda user: user.endswith(":here.test"),
    USERS.get,
    {agent: user for user, agent in USERS.items() if agent.node_id == "here.test"}.get,
    route,
    "!agents",
)
OWN = RoomContext("!room", RoomKind.LOCAL_AGENTS, "default", senders=(NODE, WORKER_USER))
ROOM = RoomContext("!room", RoomKind.OTHER, senders=(NODE, WORKER_USER))
CHAT = RoomContext("!room", RoomKind.AGENT_CHAT, chat_agent=WORKER, senders=(WORKER_USER,))
NODE_CHAT = RoomContext("!room", RoomKind.NODE_CHAT, senders=(NODE,))
TASK = TaskMessages(
    task=1,
    key=TaskKey("here.test", "people-1"),
    agent=WORKER,
    room_id="!room",
    root="$root",
    request="$root",
    asked_by=ALICE,
    is_threaded=True,
    made_at=1,
    progress="$progress",
    answer="$answer",
)
FURTHER = replace(TASK, task=2, agent=HELPER, request="$further", progress=None, answer=None)


def event(content: Any, sender: str = ALICE, type_: str = "m.room.message", **more: Any) -> RoomEvent:
    return RoomEvent("$event", "!room", sender, type_, content, more.pop("ts", NOW), **more)


def interpreted(
    content: Any, room: RoomContext, *tasks: TaskMessages, sender: str = ALICE, **more: Any
) -> Interpretation | None:
    return interpret(event(content, sender, **more), room, tasks, CONTEXT, NOW)


# ---- addressees --------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [OWN, ROOM])
def test_a_mention_is_a_request(room: RoomContext) -> None:
    """In every room, with a thread below the message."""
    said = text("worker: peel", mentions=[WORKER_USER])
    assert interpreted(said, room) == AgentRequest((WORKER,), "peel", "$event")
    assert interpreted(text("@worker: peel"), room) == AgentRequest((WORKER,), "peel", "$event")


def test_in_its_agents_room_a_node_handles_all_requests() -> None:
    """Elsewhere each agent's node does, so that no request is handled twice."""
    said = text("worker@kitchen.test peel")
    assert interpreted(said, OWN) == AgentRequest((KITCHEN,), "peel", "$event")
    assert interpreted(said, ROOM) is None
    both = text("peel", mentions=[KITCHEN_USER, WORKER_USER])
    assert interpreted(both, OWN) == AgentRequest((WORKER, KITCHEN), "peel", "$event")
    assert interpreted(both, ROOM) == AgentRequest((WORKER,), "peel", "$event")
    assert interpreted(both, RoomContext("!room", RoomKind.REMOTE_AGENTS, senders=(WORKER_USER,))) is None
    assert interpreted(text("!agents help"), RoomContext("!room", RoomKind.REMOTE_AGENTS, senders=(NODE,))) is None


@pytest.mark.parametrize("body", ["hello", "worker, are you there?", "see you, @worker:other.test"])
def test_conversation_is_not_a_request(body: str) -> None:
    """Nor are messages to other people."""
    assert interpreted(text(body), ROOM) is None
    assert interpreted(text(body), OWN) is None
    assert interpreted(text(f"@bob: {body}", mentions=[BOB]), OWN) is None


def test_in_a_direct_chat_every_message_is_a_request() -> None:
    """It is answered in the chat with earlier messages as context, or in its thread."""
    assert interpreted(text("peel"), CHAT) == AgentRequest((WORKER,), "peel", None, continues=True)
    assert interpreted(text("somebody@else.where is ill"), CHAT) == AgentRequest(
        (WORKER,), "somebody@else.where is ill", None, continues=True
    )
    assert interpreted(in_thread("$t", text("peel")), CHAT) == AgentRequest((WORKER,), "peel", "$t", continues=True)
    # Other mentions do not change the addressee.
    assert interpreted(text("@helper peels"), CHAT) == AgentRequest((WORKER,), "@helper peels", None, continues=True)
    assert interpreted(text("@worker peel"), CHAT) == AgentRequest((WORKER,), "peel", None, continues=True)


def test_a_request_needs_a_user_that_can_answer() -> None:
    """The agent's or the node's."""
    said = text("@helper: peel")
    assert interpreted(said, ROOM) == AgentRequest((HELPER,), "peel", "$event")
    assert interpreted(said, replace(ROOM, senders=(WORKER_USER,))) is None
    assert interpreted(text("@worker: peel"), replace(ROOM, senders=(WORKER_USER,))) is not None


def test_only_text_is_accepted() -> None:
    """In a direct chat the person is told. Elsewhere other messages are for people."""
    picture = {"msgtype": "m.image", "body": "x.png", "url": "mxc://there.test/x"}
    assert isinstance(interpreted(picture, CHAT), InvalidRequest)
    assert interpreted(picture, ROOM) is None
    assert interpreted({"msgtype": "m.emote", "body": "@worker peel"}, ROOM) is None


def test_an_unknown_agent_is_reported_in_an_agents_room() -> None:
    """With similar addresses. In other rooms the name may be a person's."""
    assert interpreted(text("@peeler: peel"), OWN) == InvalidRequest(
        'No such agent is known. Did you mean worker@here.test? Send "!agents agents" for a list of agents.'
    )
    assert interpreted(text("@peeler: peel"), ROOM) is None


def test_a_request_needs_a_prompt() -> None:
    """The person is told."""
    assert isinstance(interpreted(text("@worker:"), OWN), InvalidRequest)
    assert isinstance(interpreted(text("worker", mentions=[WORKER_USER]), ROOM), InvalidRequest)


def test_the_number_of_addressed_agents_is_limited() -> None:
    """A message cannot address all agents of a room."""
    many = {f"@w{number}:here.test": AgentAddress(f"w{number}", "here.test") for number in range(6)}
    context = replace(CONTEXT, agent_of=many.get)
    said = event(text("peel", mentions=many))
    assert isinstance(interpret(said, OWN, (), context, NOW), InvalidRequest)


def test_an_old_request_is_refused() -> None:
    """It was delivered late or repeatedly, and may be obsolete."""
    said = text("@worker: peel")
    assert isinstance(interpreted(said, OWN, ts=NOW - MAX_AGE_MS), AgentRequest)
    assert isinstance(interpreted(said, OWN, ts=NOW - MAX_AGE_MS - 1), InvalidRequest)
    assert interpreted(text("hello"), OWN, ts=1) is None


# ---- echo loops --------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [OWN, ROOM, CHAT, NODE_CHAT])
def test_messages_of_agents_are_ignored(room: RoomContext) -> None:
    """Of local users, bots, agents of other nodes, and with the mark of Palaver."""
    said = text("@worker: peel", mentions=[WORKER_USER])
    assert interpreted(said, room, TASK, sender=WORKER_USER) is None
    assert interpreted(said, room, TASK, sender="@anybody:here.test") is None
    assert interpreted(said, room, TASK, sender=KITCHEN_USER) is None
    assert interpreted({**said, "msgtype": "m.notice"}, room, TASK) is None
    # A node has sent it in the person's name, for a request that exists already.
    assert interpreted({**said, "fi.mau.double_puppet_source": "palaver"}, room, TASK) is None
    assert interpreted({**said, "fi.mau.double_puppet_source": "another-bridge"}, room, TASK) is not None
    marked = content_of(Text.of("@worker: peel"), Said.ANSWER, msgtype="m.text", mentions=[WORKER_USER])
    assert interpreted(in_thread("$root", marked), room, TASK) is None
    assert related_events(event(in_thread("$root", marked))) == ()


def test_without_a_local_member_events_are_ignored() -> None:
    """Nobody could answer."""
    assert interpreted(text("@worker: peel"), replace(ROOM, senders=())) is None


# ---- threads -----------------------------------------------------------------------------------------


def test_a_message_in_a_thread_continues_it() -> None:
    """With the last agent of the thread, or the agent that it names."""
    said = in_thread("$root", text("and the carrots"))
    assert related_events(event(said)) == ("$root",)
    assert interpreted(said, OWN, FURTHER, TASK) == AgentRequest((HELPER,), "and the carrots", "$root", continues=True)
    named = in_thread("$root", text("worker: and the carrots", mentions=[WORKER_USER]))
    assert interpreted(named, ROOM, FURTHER, TASK) == AgentRequest(
        (WORKER,), "and the carrots", "$root", continues=True
    )


def test_a_reply_continues_the_thread_of_its_task() -> None:
    """For clients without threads."""
    said = reply("$answer", text("> <@worker:here.test> done\n\nand the carrots", mentions=[WORKER_USER]))
    assert related_events(event(said)) == ("$answer",)
    assert interpreted(said, OWN, TASK) == AgentRequest((WORKER,), "and the carrots", "$root", continues=True)
    # Clients mention the author of the message to which they reply.
    to_node = reply("$root", text("and the carrots", mentions=[NODE]))
    assert interpreted(to_node, OWN, TASK) == AgentRequest((WORKER,), "and the carrots", "$root", continues=True)


def test_people_can_talk_in_a_thread() -> None:
    """If they mention each other."""
    assert interpreted(in_thread("$root", text("bob, look", mentions=[BOB])), OWN, TASK) is None


def test_an_agent_can_be_mentioned_in_a_thread_of_people() -> None:
    """The earlier messages are its context."""
    said = in_thread("$talk", text("@worker: sum it up"))
    assert interpreted(said, ROOM) == AgentRequest((WORKER,), "sum it up", "$talk", continues=True)


# ---- cancelling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["❌", "❌\ufe0f"])
@pytest.mark.parametrize("target", ["$root", "$progress", "$answer"])
def test_a_reaction_cancels_a_task(key: str, target: str) -> None:
    """On its request, progress or answer; other tasks are not affected."""
    said = reaction(target, key)
    assert related_events(event(said, type_="m.reaction")) == (target,)
    assert interpreted(said, OWN, FURTHER, TASK, type_="m.reaction") == Cancellation((TASK,))


@pytest.mark.parametrize("key", ["👍", "x", ""])
def test_other_reactions_are_ignored(key: str) -> None:
    """They are for people."""
    said = reaction("$root", key)
    assert related_events(event(said, type_="m.reaction")) == ()
    assert interpreted(said, OWN, TASK, type_="m.reaction") is None


@pytest.mark.parametrize("word", ["cancel", "Cancel", " CANCEL\n"])
def test_the_word_cancel_cancels_the_tasks_of_a_thread(word: str) -> None:
    """It must be the whole message."""
    assert interpreted(in_thread("$root", text(word)), OWN, FURTHER, TASK) == Cancellation((FURTHER, TASK))
    assert interpreted(in_thread("$root", text("cancel that")), OWN, TASK) == AgentRequest(
        (WORKER,), "cancel that", "$root", continues=True
    )


def test_an_edit_replaces_the_request() -> None:
    """For the same agent in the same thread, unless it names others."""
    said = edit("$root", text("@worker: peel carrots"))
    assert related_events(event(said)) == ("$root",)
    assert interpreted(said, OWN, TASK) == RequestEdit(
        "$root", AgentRequest((WORKER,), "peel carrots", "$root", continues=False)
    )
    plain = edit("$root", text("carrots"))
    assert interpreted(plain, OWN, TASK) == RequestEdit(
        "$root", AgentRequest((WORKER,), "carrots", "$root", continues=False)
    )
    other = edit("$root", text("@helper: carrots"))
    assert interpreted(other, OWN, TASK) == RequestEdit(
        "$root", AgentRequest((HELPER,), "carrots", "$root", continues=False)
    )
    assert interpreted(edit("$root", text("")), OWN, TASK) == RequestEdit("$root", None)
    assert interpreted(edit("$root", {"msgtype": "m.image", "body": "x"}), OWN, TASK) == RequestEdit("$root", None)
    further = replace(FURTHER, asked_by=ALICE)
    assert interpreted(edit("$further", text("carrots")), OWN, further) == RequestEdit(
        "$further", AgentRequest((HELPER,), "carrots", "$root", continues=True)
    )
    chat = replace(TASK, is_threaded=False)
    assert interpreted(edit("$root", text("carrots")), CHAT, chat) == RequestEdit(
        "$root", AgentRequest((WORKER,), "carrots", None, continues=True)
    )


def test_only_the_sender_can_edit_a_request() -> None:
    """Edits of other messages are ignored."""
    assert interpreted(edit("$root", text("@worker: burn")), OWN, TASK, sender=BOB) is None
    assert interpreted(edit("$answer", text("@worker: burn")), OWN, TASK) is None
    assert interpreted(edit("$any", text("@worker: burn")), OWN) is None


def test_a_redaction_withdraws_a_request() -> None:
    """The room decides whether it is effective."""
    said = event({}, type_="m.room.redaction", redacts="$root")
    assert related_events(said) == ("$root",)
    assert interpret(said, OWN, [FURTHER, TASK], CONTEXT, NOW) == RequestRedaction("$root")
    assert interpret(replace(said, redacts="$answer"), OWN, [TASK], CONTEXT, NOW) is None
    deleted = event({}, is_redacted=True)
    assert interpret(deleted, OWN, (), CONTEXT, NOW) is None


# ---- the node itself ---------------------------------------------------------------------------------


def test_commands_are_recognised() -> None:
    """With the prefix in every room; without it in a direct chat with the node."""
    help_ = NodeCommand(Invocation(COMMANDS["help"]))
    assert interpreted(text("!agents"), ROOM) == help_
    assert interpreted(in_thread("$root", text("!agents help")), OWN, TASK) == help_
    assert interpreted(text("!agents help"), CHAT) == help_
    assert interpreted(text("help"), NODE_CHAT) == help_
    assert interpreted(text("!agents help"), NODE_CHAT) == help_
    assert interpreted(text("Hello there"), NODE_CHAT) == NodeCommand(UnknownCommand("Hello", "help"))
    assert interpreted(text("help"), ROOM) is None


def test_a_mention_of_the_node_is_a_command() -> None:
    """What it is asked then is a command."""
    assert interpreted(text("palaver: help", mentions=[NODE]), ROOM) == NodeCommand(Invocation(COMMANDS["help"]))
    assert interpreted(text(f"{NODE} help", mentions=[NODE]), ROOM) == NodeCommand(Invocation(COMMANDS["help"]))
    assert interpreted(text("Palaver: help", mentions=[NODE]), ROOM) == NodeCommand(Invocation(COMMANDS["help"]))
    assert interpreted(text("palaver: help", mentions=[NODE]), replace(ROOM, senders=(WORKER_USER,))) is None


@pytest.mark.parametrize("type_", ["m.room.encrypted", "m.room.encryption"])
@pytest.mark.parametrize("room", [ROOM, CHAT, NODE_CHAT])
def test_encrypted_events_are_reported(type_: str, room: RoomContext) -> None:
    """People are told that agents cannot read them."""
    assert interpreted({"algorithm": "m.megolm.v1.aes-sha2"}, room, type_=type_) == EncryptedMessage()
