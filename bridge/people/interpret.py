"""Interprets events in rooms: requests for agents, commands for the node, cancellations and edits.

Most events have no meaning for the node. Messages of agents have none: "bots must not respond to notices",
and a message with the mark of Palaver was sent by an agent or a node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

from appservice.people.double_puppets import has_source_mark
from bridge.agents.address import AgentAddress
from bridge.agents.routing import Unknown
from bridge.matrix.ghost import NODE_NAME
from bridge.people.addressing import AgentOf, RouteOf, find_addressees, strip_names
from bridge.people.commands import Parsed, parse, strip_prefix
from bridge.people.message import (
    CANCEL,
    ENCRYPTED,
    ENCRYPTION,
    MESSAGE,
    REACTION,
    REDACTION,
    WITHOUT_TEXT,
    Message,
    TaskMessages,
    parse_message,
    parse_reaction,
)
from bridge.people.room import RoomContext, RoomKind
from bridge.people.settings import NAME
from bridge.people.texts.text import is_from_palaver
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from federation.events.room_event import RoomEvent
from federation.matrix.identifiers import localpart

MAX_AGENTS: Final = 5
"""Maximum number of agents to which one message gives a task."""
MAX_AGE_MS: Final = 3_600_000
CANCEL_WORD: Final = "cancel"


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A task for agents. `root` is the root of its thread, or None if the answer is sent to the room
    itself."""

    agents: tuple[AgentAddress, ...]
    prompt: str
    root: str | None
    continues: bool = False
    """Whether earlier messages of the thread or chat belong to the request."""


@dataclass(frozen=True, slots=True)
class InvalidRequest:
    """A message to agents that is not a valid request. `reason` is sent to the person."""

    reason: str


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """A command for the node."""

    parsed: Parsed


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The person wants to cancel these tasks."""

    tasks: tuple[TaskMessages, ...]


@dataclass(frozen=True, slots=True)
class RequestEdit:
    """An edit of a request. `new_request` is None if the new text is not a request."""

    request: str
    new_request: AgentRequest | None


@dataclass(frozen=True, slots=True)
class RequestRedaction:
    """A redaction of a request. The room decides whether it is effective."""

    event_id: str


@dataclass(frozen=True, slots=True)
class EncryptedMessage:
    """An event in an encrypted room, which agents cannot read."""


Interpretation: TypeAlias = (
    AgentRequest | InvalidRequest | NodeCommand | Cancellation | RequestEdit | RequestRedaction | EncryptedMessage
)


@dataclass(frozen=True, slots=True)
class InterpreterContext:
    """What the interpretation of an event depends on, besides its room.

    `ghost_of` returns the local user of an agent: of an agent of this node, or of a node that is not a
    homeserver.
    """

    node_user: str
    is_local: Callable[[str], bool]
    agent_of: AgentOf
    ghost_of: Callable[[AgentAddress], str | None]
    route: RouteOf
    prefix: str


def related_events(event: RoomEvent) -> tuple[str, ...]:
    """Return the events whose tasks the interpretation needs: those of the first event that has tasks."""
    if is_from_palaver(event.content):
        return ()
    found: tuple[str | None, ...] = ()
    if event.type == MESSAGE:
        message = parse_message(event.content)
        found = (message.replaces,) if message.replaces is not None else (message.replies_to, message.thread)
    elif event.type == REACTION:
        found = (_cancelled_by_reaction(event),)
    elif event.type == REDACTION:
        found = (event.redacts,)
    return tuple(event_id for event_id in found if event_id is not None)


def interpret(
    event: RoomEvent, room: RoomContext, tasks: Sequence[TaskMessages], context: InterpreterContext, now_ms: int
) -> Interpretation | None:
    """Interpret an event. `tasks` are the tasks of the related event, the newest first."""
    if room.kind is RoomKind.REMOTE_AGENTS or not room.senders or _is_from_agent(event, context):
        return None
    if event.type in {ENCRYPTED, ENCRYPTION}:
        return EncryptedMessage()
    if event.type == REACTION:
        target = _cancelled_by_reaction(event)
        cancelled = tuple(task for task in tasks if target in {task.request, task.progress, task.answer})
        return Cancellation(cancelled) if cancelled else None
    if event.type == REDACTION:
        is_request = any(task.request == event.redacts for task in tasks)
        return RequestRedaction(event.redacts) if is_request and event.redacts is not None else None
    if event.type == MESSAGE and not event.is_redacted:
        return _interpret_message(event, parse_message(event.content), room, tasks, context, now_ms)
    return None


def _cancelled_by_reaction(event: RoomEvent) -> str | None:
    """Return the event to which a person has reacted with the reaction for cancelling."""
    found = parse_reaction(event.content)
    return found[0] if found is not None and found[1] in CANCEL else None


def _is_from_agent(event: RoomEvent, context: InterpreterContext) -> bool:
    return (
        context.is_local(event.sender)
        or is_from_palaver(event.content)
        or has_source_mark(event.content)
        or context.agent_of(event.sender) is not None
        or event.content.get("msgtype") == "m.notice"
    )


def _interpret_message(
    event: RoomEvent,
    message: Message,
    room: RoomContext,
    tasks: Sequence[TaskMessages],
    context: InterpreterContext,
    now_ms: int,
) -> Interpretation | None:
    if message.replaces is not None:
        return _interpret_edit(event, message, room, tasks, context)
    if message.msgtype != "m.text":
        is_for_agent = room.kind is RoomKind.AGENT_CHAT and message.msgtype in WITHOUT_TEXT
        return InvalidRequest("I can only read text.") if is_for_agent else None
    command_line = _command_line(message, room, context, is_in_thread=bool(tasks))
    if command_line is not None:
        return NodeCommand(parse(command_line))
    if tasks and message.body.lower() == CANCEL_WORD:
        return Cancellation(tuple(tasks))
    request = _agent_request(event.event_id, message, room, tasks, context)
    if isinstance(request, AgentRequest) and event.origin_server_ts < now_ms - MAX_AGE_MS:
        # The event was delivered late or repeatedly; its sender may not expect a result any more.
        return InvalidRequest("This message arrived more than an hour late. Send it again if you still need it.")
    return request


def _command_line(
    message: Message, room: RoomContext, context: InterpreterContext, *, is_in_thread: bool
) -> str | None:
    """Return the command line of a message to the node, or None if the message is not for the node."""
    line = strip_prefix(message.body, context.prefix)
    if line is not None or room.kind is RoomKind.NODE_CHAT:
        return message.body if line is None else line
    node_user = context.node_user
    if node_user not in message.mentioned or node_user not in room.senders:
        return None
    names = (node_user, localpart(node_user) or "", NODE_NAME, *message.names_of(node_user))
    rest = strip_names(message.body, names)
    # A reply to a message of the node mentions its user too, but does not begin with its name.
    return None if is_in_thread and rest == message.body else rest


def _agent_request(
    request: str, message: Message, room: RoomContext, tasks: Sequence[TaskMessages], context: InterpreterContext
) -> AgentRequest | InvalidRequest | None:
    addressees = find_addressees(message, context.agent_of, context.route)
    if room.chat_agent is not None and room.chat_agent not in addressees.agents:
        # In a direct chat a message is for its agent, whoever is mentioned.
        addressees = replace(addressees, agents=(), prompt=message.body, others=())
    agents = _agents_served_here(addressees.agents, room, context)
    if addressees.agents and not agents:
        return None
    if not agents:
        if any(user != context.node_user for user in addressees.others):
            return None  # the message is for people
        if tasks:
            agents = (tasks[0].agent,)
        elif room.kind is RoomKind.AGENT_CHAT and room.chat_agent is not None:
            agents = (room.chat_agent,)
        elif addressees.unknown is not None and room.kind is RoomKind.LOCAL_AGENTS:
            return InvalidRequest(_unknown_agent(addressees.unknown, context.prefix))
        else:
            return None
    if len(agents) > MAX_AGENTS:
        return InvalidRequest(f"One message can give a task to at most {MAX_AGENTS} agents.")
    if not addressees.prompt:
        return InvalidRequest("Write the task after the agent's name.")
    continues = bool(tasks) or message.thread is not None or room.kind is RoomKind.AGENT_CHAT
    return AgentRequest(agents, addressees.prompt, _root(request, message, room, tasks), continues)


def _agents_served_here(
    agents: Sequence[AgentAddress], room: RoomContext, context: InterpreterContext
) -> tuple[AgentAddress, ...]:
    """Return the agents whose requests in this room are handled by this node.

    In an agents' room the room's node handles requests for all agents, also for those of other nodes. In any
    other room each agent's own node does, so that no request is handled twice if several nodes have joined.
    It needs a user in the room that can answer.
    """
    if room.kind is RoomKind.LOCAL_AGENTS:
        return tuple(agents)
    ghosts = [(agent, context.ghost_of(agent)) for agent in agents]
    return tuple(
        agent
        for agent, ghost in ghosts
        if ghost is not None and not {ghost, context.node_user}.isdisjoint(room.senders)
    )


def _root(request: str, message: Message, room: RoomContext, tasks: Sequence[TaskMessages]) -> str | None:
    if message.thread is not None:
        return message.thread
    if tasks and tasks[0].is_threaded:
        return tasks[0].root
    # In a direct chat a thread for each message would only be in the way.
    return None if room.kind is RoomKind.AGENT_CHAT else request


def _interpret_edit(
    event: RoomEvent, message: Message, room: RoomContext, tasks: Sequence[TaskMessages], context: InterpreterContext
) -> RequestEdit | None:
    """ "Edits […] of the request": only by the sender of the request, as in Matrix."""
    own = [task for task in tasks if task.request == message.replaces and task.asked_by == event.sender]
    if not own or message.replaces is None:
        return None
    if message.msgtype != "m.text":
        return RequestEdit(message.replaces, None)
    addressees = find_addressees(message, context.agent_of, context.route)
    # If the new text names no agents, the previous ones stay addressed.
    agents = _agents_served_here(addressees.agents, room, context) or tuple(dict.fromkeys(task.agent for task in own))
    if not addressees.prompt or len(agents) > MAX_AGENTS:
        return RequestEdit(message.replaces, None)
    root = own[0].root if own[0].is_threaded else None
    new_request = AgentRequest(agents, addressees.prompt, root, continues=root != message.replaces)
    return RequestEdit(message.replaces, new_request)


def _unknown_agent(unknown: Unknown, prefix: str) -> str:
    candidates = ", ".join(map(str, unknown.candidates))
    hint = f" Did you mean {candidates}?" if candidates else ""
    return f'{unknown.reason}{hint} Send "{prefix} agents" for a list of agents.'


def task_request(
    agent: AgentAddress,
    prompt: str,
    *,
    event_id: str,
    room_id: str,
    user: str,
    requester: AgentAddress,
    context: str = "",
) -> TaskRequest:
    """Build the task request of a message. Its key is derived from the event and the agent, so a message that
    is handled repeatedly creates only one task for each agent."""
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
