"""What an event in a room means."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.agents.address import AgentAddress, BareAgentId
from bridge.agents.routing import Local, Remote, Route, Unknown
from bridge.people.commands import COMMANDS, NoSuchCommand, Order
from bridge.people.interpret import (
    MOST_AGE_MS,
    Asked,
    Cancelled,
    Ears,
    Edited,
    Heard,
    NotAsked,
    Ordered,
    TakenBack,
    Unreadable,
    related,
    understand,
)
from bridge.people.message import Shown
from bridge.people.place import Kind, Place
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
WORKER, HELPER, KITCHEN = (
    address(one) for one in ("worker@here.test", "helper@here.test", "worker@kitchen.test")
)
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


EARS = Ears(
    NODE,
    lambda user: user.endswith(":here.test"),
    USERS.get,
    {agent: user for user, agent in USERS.items() if agent.node_id == "here.test"}.get,
    route,
    "!agents",
)
OWN = Place("!room", Kind.OWN, "default", speakers=(NODE, WORKER_USER))
ROOM = Place("!room", Kind.ROOM, speakers=(NODE, WORKER_USER))
CHAT = Place("!room", Kind.CHAT, partner=WORKER, speakers=(WORKER_USER,))
DESK = Place("!room", Kind.DESK, speakers=(NODE,))
TASK = Shown(
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


def hear(content: Any, place: Place, *tasks: Shown, sender: str = ALICE, **more: Any) -> Heard | None:
    return understand(event(content, sender, **more), place, tasks, EARS, NOW)


# ---- who is asked ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [OWN, ROOM])
def test_a_mention_is_a_task(place: Place) -> None:
    """In every room, in a thread below the message."""
    said = text("worker: peel", mentions=[WORKER_USER])
    assert hear(said, place) == Asked((WORKER,), "peel", "$event")
    assert hear(text("@worker: peel"), place) == Asked((WORKER,), "peel", "$event")


def test_in_its_own_room_a_node_gives_out_all_work() -> None:
    """Elsewhere each agent's node does, so that nothing is done twice where both are."""
    said = text("worker@kitchen.test peel")
    assert hear(said, OWN) == Asked((KITCHEN,), "peel", "$event")
    assert hear(said, ROOM) is None
    both = text("peel", mentions=[KITCHEN_USER, WORKER_USER])
    assert hear(both, OWN) == Asked((WORKER, KITCHEN), "peel", "$event")
    assert hear(both, ROOM) == Asked((WORKER,), "peel", "$event")
    assert hear(both, Place("!room", Kind.FOREIGN, speakers=(WORKER_USER,))) is None
    assert hear(text("!agents help"), Place("!room", Kind.FOREIGN, speakers=(NODE,))) is None


@pytest.mark.parametrize("body", ["hello", "worker, are you there?", "see you, @worker:other.test"])
def test_talk_is_no_task(body: str) -> None:
    """Nor is what people say to each other."""
    assert hear(text(body), ROOM) is None
    assert hear(text(body), OWN) is None
    assert hear(text(f"@bob: {body}", mentions=[BOB]), OWN) is None


def test_in_a_chat_every_message_is_a_task() -> None:
    """Answered in the chat itself, with what was said before; in a thread of it, in that thread."""
    assert hear(text("peel"), CHAT) == Asked((WORKER,), "peel", None, goes_on=True)
    assert hear(text("somebody@else.where is ill"), CHAT) == Asked(
        (WORKER,), "somebody@else.where is ill", None, goes_on=True
    )
    assert hear(in_thread("$t", text("peel")), CHAT) == Asked((WORKER,), "peel", "$t", goes_on=True)
    # There is nobody else, whoever is talked of.
    assert hear(text("@helper peels"), CHAT) == Asked((WORKER,), "@helper peels", None, goes_on=True)
    assert hear(text("@worker peel"), CHAT) == Asked((WORKER,), "peel", None, goes_on=True)


def test_an_agent_is_asked_where_somebody_can_answer() -> None:
    """Itself, or the node."""
    said = text("@helper: peel")
    assert hear(said, ROOM) == Asked((HELPER,), "peel", "$event")
    assert hear(said, replace(ROOM, speakers=(WORKER_USER,))) is None
    assert hear(text("@worker: peel"), replace(ROOM, speakers=(WORKER_USER,))) is not None


def test_only_text_can_be_read() -> None:
    """In a chat that is said; elsewhere a picture is for people."""
    picture = {"msgtype": "m.image", "body": "x.png", "url": "mxc://there.test/x"}
    assert isinstance(hear(picture, CHAT), NotAsked)
    assert hear(picture, ROOM) is None
    assert hear({"msgtype": "m.emote", "body": "@worker peel"}, ROOM) is None


def test_who_is_not_there_is_told_of_in_a_room_of_agents() -> None:
    """With whom there is. In another room it may be somebody else."""
    assert hear(text("@peeler: peel"), OWN) == NotAsked(
        'No such agent is known. There is worker@here.test. Say "!agents agents" for all of them.'
    )
    assert hear(text("@peeler: peel"), ROOM) is None


def test_nothing_is_said_behind_the_name() -> None:
    """It is asked what is to be done."""
    assert isinstance(hear(text("@worker:"), OWN), NotAsked)
    assert isinstance(hear(text("worker", mentions=[WORKER_USER]), ROOM), NotAsked)


def test_one_message_is_for_some_agents_only() -> None:
    """Whole rooms are not called together."""
    many = {f"@w{number}:here.test": AgentAddress(f"w{number}", "here.test") for number in range(6)}
    ears = replace(EARS, agent_of=many.get)
    said = event(text("peel", mentions=many))
    assert isinstance(understand(said, OWN, (), ears, NOW), NotAsked)


def test_what_was_said_long_ago_is_not_done_now() -> None:
    """It may have come late, or once more, and been forgotten by whoever said it."""
    said = text("@worker: peel")
    assert isinstance(hear(said, OWN, ts=NOW - MOST_AGE_MS), Asked)
    assert isinstance(hear(said, OWN, ts=NOW - MOST_AGE_MS - 1), NotAsked)
    assert hear(text("hello"), OWN, ts=1) is None


# ---- echo loops --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [OWN, ROOM, CHAT, DESK])
def test_machines_are_not_heard(place: Place) -> None:
    """Our own users, notices of bots, agents of other nodes, and what bears the mark of a Palaver."""
    said = text("@worker: peel", mentions=[WORKER_USER])
    assert hear(said, place, TASK, sender=WORKER_USER) is None
    assert hear(said, place, TASK, sender="@anybody:here.test") is None
    assert hear(said, place, TASK, sender=KITCHEN_USER) is None
    assert hear({**said, "msgtype": "m.notice"}, place, TASK) is None
    # Said by a node in the person's name: whoever had it say so has asked already.
    assert hear({**said, "fi.mau.double_puppet_source": "palaver"}, place, TASK) is None
    assert hear({**said, "fi.mau.double_puppet_source": "another-bridge"}, place, TASK) is not None
    marked = content_of(Text.of("@worker: peel"), Said.ANSWER, msgtype="m.text", mentions=[WORKER_USER])
    assert hear(in_thread("$root", marked), place, TASK) is None
    assert related(event(in_thread("$root", marked))) == ()


def test_where_nobody_of_ours_is_nothing_is_heard() -> None:
    """Who has left cannot answer."""
    assert hear(text("@worker: peel"), replace(ROOM, speakers=())) is None


# ---- threads -----------------------------------------------------------------------------------------


def test_an_answer_in_a_thread_goes_on_with_it() -> None:
    """With the agent that worked last in it, or with whom it names."""
    said = in_thread("$root", text("and the carrots"))
    assert related(event(said)) == ("$root",)
    assert hear(said, OWN, FURTHER, TASK) == Asked((HELPER,), "and the carrots", "$root", goes_on=True)
    named = in_thread("$root", text("worker: and the carrots", mentions=[WORKER_USER]))
    assert hear(named, ROOM, FURTHER, TASK) == Asked((WORKER,), "and the carrots", "$root", goes_on=True)


def test_an_answer_without_a_thread_leads_into_it() -> None:
    """As clients write it that know of none."""
    said = reply("$answer", text("> <@worker:here.test> done\n\nand the carrots", mentions=[WORKER_USER]))
    assert related(event(said)) == ("$answer",)
    assert hear(said, OWN, TASK) == Asked((WORKER,), "and the carrots", "$root", goes_on=True)
    # Clients mention whom they answer: the node is not called by it.
    to_node = reply("$root", text("and the carrots", mentions=[NODE]))
    assert hear(to_node, OWN, TASK) == Asked((WORKER,), "and the carrots", "$root", goes_on=True)


def test_people_may_talk_in_a_thread() -> None:
    """When they say to whom."""
    assert hear(in_thread("$root", text("bob, look", mentions=[BOB])), OWN, TASK) is None


def test_an_agent_is_called_into_a_thread_of_people() -> None:
    """And is told what was said there."""
    said = in_thread("$talk", text("@worker: sum it up"))
    assert hear(said, ROOM) == Asked((WORKER,), "sum it up", "$talk", goes_on=True)


# ---- taking back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["❌", "❌\ufe0f"])
@pytest.mark.parametrize("target", ["$root", "$progress", "$answer"])
def test_a_reaction_takes_back(key: str, target: str) -> None:
    """On the request, the progress or the answer, of just that task."""
    said = reaction(target, key)
    assert related(event(said, type_="m.reaction")) == (target,)
    assert hear(said, OWN, FURTHER, TASK, type_="m.reaction") == Cancelled((TASK,))


@pytest.mark.parametrize("key", ["👍", "x", ""])
def test_other_reactions_mean_nothing(key: str) -> None:
    """They are for people."""
    said = reaction("$root", key)
    assert related(event(said, type_="m.reaction")) == ()
    assert hear(said, OWN, TASK, type_="m.reaction") is None


@pytest.mark.parametrize("word", ["cancel", "Cancel", " CANCEL\n"])
def test_a_word_takes_back(word: str) -> None:
    """All of a thread, in it."""
    assert hear(in_thread("$root", text(word)), OWN, FURTHER, TASK) == Cancelled((FURTHER, TASK))
    assert hear(in_thread("$root", text("cancel that")), OWN, TASK) == Asked(
        (WORKER,), "cancel that", "$root", goes_on=True
    )


def test_an_edit_says_it_anew() -> None:
    """For the same agent in the same thread, unless others are named now."""
    said = edit("$root", text("@worker: peel carrots"))
    assert related(event(said)) == ("$root",)
    assert hear(said, OWN, TASK) == Edited("$root", Asked((WORKER,), "peel carrots", "$root", goes_on=False))
    plain = edit("$root", text("carrots"))
    assert hear(plain, OWN, TASK) == Edited("$root", Asked((WORKER,), "carrots", "$root", goes_on=False))
    other = edit("$root", text("@helper: carrots"))
    assert hear(other, OWN, TASK) == Edited("$root", Asked((HELPER,), "carrots", "$root", goes_on=False))
    assert hear(edit("$root", text("")), OWN, TASK) == Edited("$root", None)
    assert hear(edit("$root", {"msgtype": "m.image", "body": "x"}), OWN, TASK) == Edited("$root", None)
    further = replace(FURTHER, asked_by=ALICE)
    assert hear(edit("$further", text("carrots")), OWN, further) == Edited(
        "$further", Asked((HELPER,), "carrots", "$root", goes_on=True)
    )
    chat = replace(TASK, is_threaded=False)
    assert hear(edit("$root", text("carrots")), CHAT, chat) == Edited(
        "$root", Asked((WORKER,), "carrots", None, goes_on=True)
    )


def test_only_whoever_said_it_edits_it() -> None:
    """And only what asked for something."""
    assert hear(edit("$root", text("@worker: burn")), OWN, TASK, sender=BOB) is None
    assert hear(edit("$answer", text("@worker: burn")), OWN, TASK) is None
    assert hear(edit("$any", text("@worker: burn")), OWN) is None


def test_a_request_is_deleted() -> None:
    """Whether that holds, the room says."""
    said = event({}, type_="m.room.redaction", redacts="$root")
    assert related(said) == ("$root",)
    assert understand(said, OWN, [FURTHER, TASK], EARS, NOW) == TakenBack("$root")
    assert understand(replace(said, redacts="$answer"), OWN, [TASK], EARS, NOW) is None
    deleted = event({}, is_redacted=True)
    assert understand(deleted, OWN, (), EARS, NOW) is None


# ---- the node itself ---------------------------------------------------------------------------------


def test_commands() -> None:
    """With the prefix everywhere, also in a thread; without it in a chat with the node."""
    help_ = Ordered(Order(COMMANDS["help"]))
    assert hear(text("!agents"), ROOM) == help_
    assert hear(in_thread("$root", text("!agents help")), OWN, TASK) == help_
    assert hear(text("!agents help"), CHAT) == help_
    assert hear(text("help"), DESK) == help_
    assert hear(text("!agents help"), DESK) == help_
    assert hear(text("Hello there"), DESK) == Ordered(NoSuchCommand("Hello", "help"))
    assert hear(text("help"), ROOM) is None


def test_the_node_is_mentioned() -> None:
    """What it is asked then is a command."""
    assert hear(text("palaver: help", mentions=[NODE]), ROOM) == Ordered(Order(COMMANDS["help"]))
    assert hear(text(f"{NODE} help", mentions=[NODE]), ROOM) == Ordered(Order(COMMANDS["help"]))
    assert hear(text("Palaver: help", mentions=[NODE]), ROOM) == Ordered(Order(COMMANDS["help"]))
    assert hear(text("palaver: help", mentions=[NODE]), replace(ROOM, speakers=(WORKER_USER,))) is None


@pytest.mark.parametrize("type_", ["m.room.encrypted", "m.room.encryption"])
@pytest.mark.parametrize("place", [ROOM, CHAT, DESK])
def test_what_is_encrypted_cannot_be_read(type_: str, place: Place) -> None:
    """Which is said, and not left to be guessed."""
    assert hear({"algorithm": "m.megolm.v1.aes-sha2"}, place, type_=type_) == Unreadable()
