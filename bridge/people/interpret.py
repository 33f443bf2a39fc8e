"""What an event in a room means to this node and to its agents.

Most events mean nothing. Nothing is meant by what agents say: "bots must not respond to notices", and what
bears the mark of a Palaver is an agent's, of whatever node.

A person's words as a task.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

from appservice.people.double_puppets import has_source_mark
from bridge.agents.address import AgentAddress
from bridge.agents.routing import Unknown
from bridge.matrix.ghost import NODE_NAME
from bridge.people.addressing import AgentOf, RouteOf, addressed, without_names
from bridge.people.commands import Parsed, behind_prefix, parse
from bridge.people.message import (
    CANCEL,
    ENCRYPTED,
    ENCRYPTION,
    MESSAGE,
    REACTION,
    REDACTION,
    WITHOUT_TEXT,
    Message,
    Shown,
    reacted,
    read,
)
from bridge.people.place import Kind, Place
from bridge.people.settings import NAME
from bridge.people.texts.text import is_ours
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from federation.events.room_event import RoomEvent
from federation.matrix.identifiers import localpart

MOST_AGENTS: Final = 5
"""To which one message gives work."""
MOST_AGE_MS: Final = 3_600_000
CANCEL_WORD: Final = "cancel"


@dataclass(frozen=True, slots=True)
class Asked:
    """Work for agents. `root` is what the thread hangs on; None where it is answered in the room itself."""

    agents: tuple[AgentAddress, ...]
    prompt: str
    root: str | None
    goes_on: bool = False
    """It is asked in a thread, or in a chat, and what was said before belongs to it."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Agents are named, and yet this is no task for them: a sentence says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ordered:
    """A command for the node."""

    parsed: Parsed


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The tasks are to be taken back."""

    tasks: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Edited:
    """A request says something else now; `asked` is None if it no longer asks for anything."""

    request: str
    asked: Asked | None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """An event has been redacted, if that holds."""

    event_id: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """It is encrypted."""


Heard: TypeAlias = Asked | NotAsked | Ordered | Cancelled | Edited | TakenBack | Unreadable


@dataclass(frozen=True, slots=True)
class Ears:
    """What has to be known for understanding. `ghost_of` is the user of this node that an agent is: one of
    its own, or of a node that is no homeserver."""

    node_user: str
    is_ours: Callable[[str], bool]
    agent_of: AgentOf
    ghost_of: Callable[[AgentAddress], str | None]
    route: RouteOf
    prefix: str


def related(event: RoomEvent) -> tuple[str, ...]:
    """The events by which tasks are looked up before it can be understood: of the first that has some."""
    if is_ours(event.content):
        return ()
    found: tuple[str | None, ...] = ()
    if event.type == MESSAGE:
        message = read(event.content)
        found = (message.replaces,) if message.replaces is not None else (message.answers, message.thread)
    elif event.type == REACTION:
        target = _taken_back_by(event)
        found = (target,)
    elif event.type == REDACTION:
        found = (event.redacts,)
    return tuple(one for one in found if one is not None)


def understand(
    event: RoomEvent, place: Place, tasks: Sequence[Shown], ears: Ears, now_ms: int
) -> Heard | None:
    """`tasks` are those to which the related event belongs, the newest first."""
    if place.kind is Kind.FOREIGN or not place.speakers or _is_of_machine(event, ears):
        return None
    if event.type in {ENCRYPTED, ENCRYPTION}:
        return Unreadable()
    if event.type == REACTION:
        target = _taken_back_by(event)
        meant = tuple(task for task in tasks if target in {task.request, task.progress, task.answer})
        return Cancelled(meant) if meant else None
    if event.type == REDACTION:
        asked = any(task.request == event.redacts for task in tasks)
        return TakenBack(event.redacts) if asked and event.redacts is not None else None
    if event.type == MESSAGE and not event.is_redacted:
        return _understand_message(event, read(event.content), place, tasks, ears, now_ms)
    return None


def _taken_back_by(event: RoomEvent) -> str | None:
    """To what somebody has reacted with the sign for it."""
    found = reacted(event.content)
    return found[0] if found is not None and found[1] in CANCEL else None


def _is_of_machine(event: RoomEvent, ears: Ears) -> bool:
    return (
        ears.is_ours(event.sender)
        or is_ours(event.content)
        or has_source_mark(event.content)
        or ears.agent_of(event.sender) is not None
        or event.content.get("msgtype") == "m.notice"
    )


def _understand_message(
    event: RoomEvent, message: Message, place: Place, tasks: Sequence[Shown], ears: Ears, now_ms: int
) -> Heard | None:
    if message.replaces is not None:
        return _understand_edit(event, message, place, tasks, ears)
    if message.msgtype != "m.text":
        is_for_agent = place.kind is Kind.CHAT and message.msgtype in WITHOUT_TEXT
        return NotAsked("I can only read text.") if is_for_agent else None
    order = _order(message, place, ears, is_in_thread=bool(tasks))
    if order is not None:
        return Ordered(parse(order))
    if tasks and message.body.lower() == CANCEL_WORD:
        return Cancelled(tuple(tasks))
    asked = _asked(event.event_id, message, place, tasks, ears)
    if isinstance(asked, Asked) and event.origin_server_ts < now_ms - MOST_AGE_MS:
        # What came late, or once more, may have been forgotten by whoever said it.
        return NotAsked("This was said long before I heard it. Say it again if it is still wanted.")
    return asked


def _order(message: Message, place: Place, ears: Ears, *, is_in_thread: bool) -> str | None:
    """The line of a command."""
    behind = behind_prefix(message.body, ears.prefix)
    if behind is not None or place.kind is Kind.DESK:
        return message.body if behind is None else behind
    if ears.node_user not in message.mentioned or ears.node_user not in place.speakers:
        return None
    calls = (ears.node_user, localpart(ears.node_user) or "", NODE_NAME, *message.names_of(ears.node_user))
    rest = without_names(message.body, calls)
    # Who answers a message of the node mentions it too, without calling it.
    return None if is_in_thread and rest == message.body else rest


def _asked(
    request: str, message: Message, place: Place, tasks: Sequence[Shown], ears: Ears
) -> Asked | NotAsked | None:
    whom = addressed(message, ears.agent_of, ears.route)
    if place.partner is not None and place.partner not in whom.agents:
        # In a chat there is nobody else, whoever is talked of.
        whom = replace(whom, agents=(), prompt=message.body, others=())
    agents = _ours_to_give(whom.agents, place, ears)
    if whom.agents and not agents:
        return None
    if not agents:
        if any(user != ears.node_user for user in whom.others):
            return None  # it is for people
        if tasks:
            agents = (tasks[0].agent,)
        elif place.kind is Kind.CHAT and place.partner is not None:
            agents = (place.partner,)
        elif whom.unknown is not None and place.kind is Kind.OWN:
            return NotAsked(_not_there(whom.unknown, ears.prefix))
        else:
            return None
    if len(agents) > MOST_AGENTS:
        return NotAsked(f"One message gives work to at most {MOST_AGENTS} agents.")
    if not whom.prompt:
        return NotAsked("Say behind the name what is to be done.")
    goes_on = bool(tasks) or message.thread is not None or place.kind is Kind.CHAT
    return Asked(agents, whom.prompt, _root(request, message, place, tasks), goes_on)


def _ours_to_give(agents: Sequence[AgentAddress], place: Place, ears: Ears) -> tuple[AgentAddress, ...]:
    """In its own room of agents a node gives out all the work, wherever they live. In any other room each
    agent's node does, so that nothing is done twice where several nodes are; and there has to be somebody to
    answer."""
    if place.kind is Kind.OWN:
        return tuple(agents)
    ghosts = [(agent, ears.ghost_of(agent)) for agent in agents]
    return tuple(
        agent
        for agent, ghost in ghosts
        if ghost is not None and not {ghost, ears.node_user}.isdisjoint(place.speakers)
    )


def _root(request: str, message: Message, place: Place, tasks: Sequence[Shown]) -> str | None:
    if message.thread is not None:
        return message.thread
    if tasks and tasks[0].is_threaded:
        return tasks[0].root
    # A thread for each message of a chat would be in the way.
    return None if place.kind is Kind.CHAT else request


def _understand_edit(
    event: RoomEvent, message: Message, place: Place, tasks: Sequence[Shown], ears: Ears
) -> Edited | None:
    """ "Edits […] of the request": by whoever made it, as Matrix has it too."""
    mine = [task for task in tasks if task.request == message.replaces and task.asked_by == event.sender]
    if not mine or message.replaces is None:
        return None
    if message.msgtype != "m.text":
        return Edited(message.replaces, None)
    whom = addressed(message, ears.agent_of, ears.route)
    # Its agents are who they were, unless it names others now.
    agents = _ours_to_give(whom.agents, place, ears) or tuple(dict.fromkeys(task.agent for task in mine))
    if not whom.prompt or len(agents) > MOST_AGENTS:
        return Edited(message.replaces, None)
    root = mine[0].root if mine[0].is_threaded else None
    return Edited(message.replaces, Asked(agents, whom.prompt, root, goes_on=root != message.replaces))


def _not_there(unknown: Unknown, prefix: str) -> str:
    meant = ", ".join(map(str, unknown.candidates))
    there = f" There is {meant}." if meant else ""
    return f'{unknown.reason}{there} Say "{prefix} agents" for all of them.'


def request_for(
    agent: AgentAddress,
    prompt: str,
    *,
    event_id: str,
    room_id: str,
    user: str,
    requester: AgentAddress,
    context: str = "",
) -> TaskRequest:
    """`event_id` is what was said: one message is one task for each agent, however often it is read."""
    digest = sha256(f"{event_id}\n{agent}".encode("utf-8", "surrogatepass")).hexdigest()
    metadata: dict[str, Any] = {"asked_by": user}
    return TaskRequest(
        key=TaskKey(requester.node_id, f"people-{digest[:32]}"),
        task_id=f"t-{digest[:10]}",
        from_address=requester,
        to_address=agent,
        prompt=prompt,
        origin=Origin(NAME, {"room_id": room_id, "event_id": event_id, "user_id": user}),
        context=context,
        metadata=metadata,
    )
