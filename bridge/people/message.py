"""Parses messages of people, and maps tasks to their messages.

Any field of an event may have any type, because remote users write it. Client-server API, "m.room.message",
"User and room mentions", "Rich replies", "Threading", "Event replacements".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from typing import Any, Final
from urllib.parse import unquote

from bridge.agents.address import AgentAddress, is_unicode
from bridge.people.texts.text import Kind, clean, html_of, is_from_palaver, kind_of, one_line
from bridge.tasks.request import TaskKey
from bridge.tasks.task import LIVE, State
from federation.events.room_event import RoomEvent
from federation.matrix.identifiers import is_event_id, is_user_id
from federation.matrix.message_content import new_content

MESSAGE: Final = "m.room.message"
REACTION: Final = "m.reaction"
REDACTION: Final = "m.room.redaction"
MEMBER: Final = "m.room.member"
ENCRYPTED: Final = "m.room.encrypted"
ENCRYPTION: Final = "m.room.encryption"

MAX_MENTIONS: Final = 20
"""Maximum number of mentions that are checked for agents."""
WITHOUT_TEXT: Final = frozenset({"m.image", "m.file", "m.audio", "m.video", "m.location"})

_PILL: Final = re.compile(
    r"<a\s[^<>]{0,500}?href\s*=\s*[\"']?(?:https?://matrix\.to/#/|matrix:)([^\"'<>\s]{1,800})", re.IGNORECASE
)
_PILL_TEXT: Final = re.compile(r"[^<>]{0,500}>(.{1,500}?)</a\s*>", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^<>]{0,500}>")
_QUOTED: Final = re.compile(r"<mx-reply>.*?</mx-reply>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """A parsed message. `msgtype` is None if the content is not a message. `replies_to` is the event of a
    genuine reply, not the fallback of a thread for clients without threads."""

    body: str
    msgtype: str | None
    mentioned: tuple[str, ...] = ()
    """User ids."""
    thread: str | None = None
    """The root event of its thread."""
    replies_to: str | None = None
    replaces: str | None = None
    pills: tuple[tuple[str, str], ...] = ()
    """Mentioned users with the text of their pills."""

    def names_of(self, user: str) -> tuple[str, ...]:
        return tuple(name for mentioned, name in self.pills if mentioned == user)


def parse_message(content: Mapping[str, Any]) -> Message:
    """Parse the content of a message. For an edit, parse the new content."""
    relates = content.get("m.relates_to")
    relation: Mapping[str, Any] = relates if isinstance(relates, dict) else {}
    rel_type, target = relation.get("rel_type"), _event_id(relation.get("event_id"))
    replaces = target if rel_type == "m.replace" else None
    in_reply_to = relation.get("m.in_reply_to")
    is_fallback = rel_type == "m.thread" and relation.get("is_falling_back") is True
    replies_to = _event_id(in_reply_to.get("event_id")) if isinstance(in_reply_to, dict) and not is_fallback else None
    current = new_content(content) if replaces is not None else content
    msgtype, body = current.get("msgtype"), current.get("body")
    pills = _pills(current)
    text = clean(body) if isinstance(body, str) else ""
    return Message(
        _without_quote(text) if replies_to is not None else text.strip(),
        msgtype if isinstance(msgtype, str) else None,
        _mentioned(current, pills),
        target if rel_type == "m.thread" else None,
        replies_to,
        replaces,
        tuple((user, name) for user, name in pills if name),
    )


def parse_reaction(content: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the event and the key of a reaction: "the `key` […] is the annotation being made"."""
    relates = content.get("m.relates_to")
    if not isinstance(relates, dict) or relates.get("rel_type") != "m.annotation":
        return None
    target, key = _event_id(relates.get("event_id")), relates.get("key")
    return (target, key) if target is not None and isinstance(key, str) else None


def _mentioned(content: Mapping[str, Any], pills: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The users in "m.mentions: user_ids" and in pills, because not all clients write both."""
    mentions = content.get("m.mentions")
    listed = mentions.get("user_ids") if isinstance(mentions, dict) else None
    users = [user for user in (listed if isinstance(listed, list) else [])[:MAX_MENTIONS] if _is_user(user)]
    users += [user for user, _ in pills]
    return tuple(dict.fromkeys(users))[:MAX_MENTIONS]


def _pills(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The users of pills with the text of each pill, which is also its text in the plain body."""
    html = html_of(content)
    if html is None:
        return []
    found: list[tuple[str, str]] = []
    # Users in the quoted message of a reply are not addressed.
    html = _QUOTED.sub("", html)
    for pill in _PILL.finditer(html):
        user = _user_of(pill[1])
        if user is not None and len(found) < MAX_MENTIONS:
            shown = _PILL_TEXT.match(html, pill.end())
            name = "" if shown is None else clean(unescape(_TAG.sub("", shown[1])))
            found.append((user, " ".join(name.split())))
    return found


def _user_of(pill: str) -> str | None:
    """Parse `@worker-1:here?via=…` of a matrix.to link, or `u/worker-1:here` of a Matrix URI;
    percent-encoded."""
    name = unquote(pill.partition("?")[0], errors="replace")
    if name.startswith("u/"):
        name = f"@{name[2:]}"
    return name if name.startswith("@") and is_user_id(name) else None


def _is_user(user: object) -> bool:
    return isinstance(user, str) and is_user_id(user)


def _event_id(text: object) -> str | None:
    """Return a valid event id that the database can store, or None."""
    return text if isinstance(text, str) and is_event_id(text) and is_unicode(text) else None


def _without_quote(body: str) -> str:
    """Remove the "Fallbacks for rich replies": lines that begin with `> `, and an empty line."""
    lines = body.split("\n")
    if not lines[0].startswith(("> <@", "> * <@")):
        return body.strip()
    at = next((at for at, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[at:]).strip()


class StatusReaction(StrEnum):
    """The state of a task as a reaction to its request."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"

    @property
    def emoji(self) -> str:
        return _EMOJI[self]


_EMOJI: Final[Mapping[StatusReaction, str]] = {
    StatusReaction.WAITING: "⏳",
    StatusReaction.DONE: "✅",
    StatusReaction.FAILED: "❌",
}
CANCEL: Final = frozenset({"❌", "❌\ufe0f"})
"""The reaction with which a person cancels a task. Some clients append a variation selector."""
NO_ANSWER: Final = "-"
"""Stored instead of the answer's event id if the room has refused the answer."""
NOT_STARTED: Final = frozenset({State.RECEIVED, State.QUEUED, State.ACCEPTED})


def reaction_of(state: State) -> StatusReaction:
    if state in LIVE:
        return StatusReaction.WAITING
    return StatusReaction.DONE if state is State.DONE else StatusReaction.FAILED


def needs_reaction(before: StatusReaction | None, now: StatusReaction, answer: str | None) -> bool:
    """Whether to change the reaction from `before` to `now`. A finished task that never had a reaction needs
    none: its answer shows that it is done."""
    if before is None and now is StatusReaction.DONE:
        return answer in {None, NO_ANSWER}
    return before is not now


@dataclass(frozen=True, slots=True)
class TaskMessages:
    """A task's messages in a room.

    `request` is the message that requests the task, `root` the root event of its thread. They differ if the
    request was sent within a thread. `asked_by` is the person who sent the request, or None if this node has
    sent it for a task that no person has requested.
    """

    task: int
    key: TaskKey
    agent: AgentAddress
    room_id: str
    root: str
    request: str
    asked_by: str | None
    is_threaded: bool
    made_at: int
    reaction: StatusReaction | None = None
    reaction_event: str | None = None
    progress: str | None = None
    answer: str | None = None
    withdrawn_by: str | None = None


MAX_CONTEXT: Final = 24_000
MAX_MESSAGE: Final = 8_000
OMISSION: Final = "[…]"
_CONVERSATION: Final = frozenset({Kind.REQUEST, Kind.ANSWER})


def conversation_context(events: Iterable[RoomEvent], request: str) -> str:
    """Return the messages before `request` as text. `events` are in their order in the room. If the text
    would be too long, the oldest messages are omitted."""
    messages: list[str] = []
    for event in events:
        if event.event_id == request:
            break
        line = _context_line(event)
        if line is not None:
            messages.append(line)
    included: list[str] = []
    left = MAX_CONTEXT
    for line in reversed(messages):
        if len(line) > left:
            included.append(OMISSION)
            break
        included.append(line)
        left -= len(line) + 2
    return "\n\n".join(reversed(included))


def _context_line(event: RoomEvent) -> str | None:
    """Progress and notices of the node are not part of a conversation."""
    if event.type != MESSAGE or event.is_redacted:
        return None
    if is_from_palaver(event.content) and kind_of(event.content) not in _CONVERSATION:
        return None
    message = parse_message(event.content)
    if message.msgtype not in {"m.text", "m.notice"} or message.replaces is not None or not message.body:
        return None
    body = message.body if len(message.body) <= MAX_MESSAGE else f"{message.body[:MAX_MESSAGE]} {OMISSION}"
    return f"{one_line(event.sender, 255)}: {body}"
