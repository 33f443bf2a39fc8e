"""What somebody's message says, whoever wrote it: everything in an event may be anything.

Client-server API, "m.room.message", "User and room mentions", "Rich replies", "Threading", "Event
replacements".

A task as people see it: which messages belong to it, and how it stands.

What was said before in a thread or a chat, for an agent that goes on with it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from typing import Any, Final
from urllib.parse import unquote

from bridge.agents.address import AgentAddress, is_unicode
from bridge.people.texts.text import Kind, cleaned, html_of, is_ours, kind_of, one_line
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

MOST_MENTIONED: Final = 20
"""Of whom it is looked at whether they are agents."""
WITHOUT_TEXT: Final = frozenset({"m.image", "m.file", "m.audio", "m.video", "m.location"})

_PILL: Final = re.compile(
    r"<a\s[^<>]{0,500}?href\s*=\s*[\"']?(?:https?://matrix\.to/#/|matrix:)([^\"'<>\s]{1,800})", re.IGNORECASE
)
_PILL_TEXT: Final = re.compile(r"[^<>]{0,500}>(.{1,500}?)</a\s*>", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^<>]{0,500}>")
_QUOTED: Final = re.compile(r"<mx-reply>.*?</mx-reply>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """`msgtype` is of those that a person writes, or None for what is no message at all. `answers` is what
    it truly answers, not what clients without threads show it below."""

    body: str
    msgtype: str | None
    mentioned: tuple[str, ...] = ()
    """User ids."""
    thread: str | None = None
    """The event that its thread hangs on."""
    answers: str | None = None
    replaces: str | None = None
    pills: tuple[tuple[str, str], ...] = ()
    """Of users that are mentioned, how the message calls them."""

    def names_of(self, user: str) -> tuple[str, ...]:
        return tuple(name for one, name in self.pills if one == user)


def read(content: Mapping[str, Any]) -> Message:
    """Of an edit what it puts in place of the original."""
    relates = content.get("m.relates_to")
    relation: Mapping[str, Any] = relates if isinstance(relates, dict) else {}
    rel_type, target = relation.get("rel_type"), _event_id(relation.get("event_id"))
    replaces = target if rel_type == "m.replace" else None
    answered = relation.get("m.in_reply_to")
    falls_back = rel_type == "m.thread" and relation.get("is_falling_back") is True
    answers = _event_id(answered.get("event_id")) if isinstance(answered, dict) and not falls_back else None
    said = new_content(content) if replaces is not None else content
    msgtype, body = said.get("msgtype"), said.get("body")
    pills = _pills(said)
    text = cleaned(body) if isinstance(body, str) else ""
    return Message(
        _without_quote(text) if answers is not None else text.strip(),
        msgtype if isinstance(msgtype, str) else None,
        _mentioned(said, pills),
        target if rel_type == "m.thread" else None,
        answers,
        replaces,
        tuple((user, name) for user, name in pills if name),
    )


def reacted(content: Mapping[str, Any]) -> tuple[str, str] | None:
    """To which event, and with what: "the `key` […] is the annotation being made"."""
    relates = content.get("m.relates_to")
    if not isinstance(relates, dict) or relates.get("rel_type") != "m.annotation":
        return None
    target, key = _event_id(relates.get("event_id")), relates.get("key")
    return (target, key) if target is not None and isinstance(key, str) else None


def _mentioned(content: Mapping[str, Any], pills: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """ "m.mentions: user_ids", and the pills in its form: not all clients write both."""
    mentions = content.get("m.mentions")
    listed = mentions.get("user_ids") if isinstance(mentions, dict) else None
    users = [user for user in (listed if isinstance(listed, list) else [])[:MOST_MENTIONED] if _is_user(user)]
    users += [user for user, _ in pills]
    return tuple(dict.fromkeys(users))[:MOST_MENTIONED]


def _pills(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Users, and the text of each of their pills, which is what stands for it in the plain text."""
    html = html_of(content)
    if html is None:
        return []
    found: list[tuple[str, str]] = []
    # What is answered stands in there too, and whoever wrote that is not called.
    html = _QUOTED.sub("", html)
    for pill in _PILL.finditer(html):
        user = _user_of(pill[1])
        if user is not None and len(found) < MOST_MENTIONED:
            shown = _PILL_TEXT.match(html, pill.end())
            name = "" if shown is None else cleaned(unescape(_TAG.sub("", shown[1])))
            found.append((user, " ".join(name.split())))
    return found


def _user_of(pill: str) -> str | None:
    """`@worker-1:here?via=…` as matrix.to has it, or `u/worker-1:here` of a Matrix URI, percent-encoded."""
    name = unquote(pill.partition("?")[0], errors="replace")
    if name.startswith("u/"):
        name = f"@{name[2:]}"
    return name if name.startswith("@") and is_user_id(name) else None


def _is_user(user: object) -> bool:
    return isinstance(user, str) and is_user_id(user)


def _event_id(text: object) -> str | None:
    """As a column of the database can hold it."""
    return text if isinstance(text, str) and is_event_id(text) and is_unicode(text) else None


def _without_quote(body: str) -> str:
    """ "Fallbacks for rich replies": lines that begin with `> `, and an empty one."""
    lines = body.split("\n")
    if not lines[0].startswith(("> <@", "> * <@")):
        return body.strip()
    at = next((at for at, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[at:]).strip()


class Sign(StrEnum):
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"

    @property
    def emoji(self) -> str:
        return _EMOJI[self]


_EMOJI: Final[Mapping[Sign, str]] = {Sign.WAITING: "⏳", Sign.DONE: "✅", Sign.FAILED: "❌"}
CANCEL: Final = frozenset({"❌", "❌\ufe0f"})
"""A person's reaction that takes a task back. Some clients add a selector of its form."""
NO_ANSWER: Final = "-"
"""In place of an answer's event, where the room did not take it."""
NOT_BEGUN: Final = frozenset({State.RECEIVED, State.QUEUED, State.ACCEPTED})


def sign_of(state: State) -> Sign:
    if state in LIVE:
        return Sign.WAITING
    return Sign.DONE if state is State.DONE else Sign.FAILED


def needs_sign(before: Sign | None, now: Sign, answer: str | None) -> bool:
    """A message that was never seen waiting, and has its answer, says by that that it is done."""
    if before is None and now is Sign.DONE:
        return answer in {None, NO_ANSWER}
    return before is not now


@dataclass(frozen=True, slots=True)
class Shown:
    """`request` is the message that asks, and `root` what the thread hangs on; they are the same unless it is
    asked for within a thread. `asked_by` is None when no person asked: then the request is a message of ours.
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
    sign: Sign | None = None
    sign_event: str | None = None
    progress: str | None = None
    answer: str | None = None
    withdrawn_by: str | None = None


MOST_CHARACTERS: Final = 24_000
MOST_OF_ONE: Final = 8_000
LEFT_OUT: Final = "[…]"
_SAID: Final = frozenset({Kind.REQUEST, Kind.ANSWER})


def context_of(events: Iterable[RoomEvent], request: str) -> str:
    """Of events in their order, without the request itself and what comes after it. The oldest are left out
    when there are too many."""
    said: list[str] = []
    for event in events:
        if event.event_id == request:
            break
        line = _said(event)
        if line is not None:
            said.append(line)
    kept: list[str] = []
    left = MOST_CHARACTERS
    for line in reversed(said):
        if len(line) > left:
            kept.append(LEFT_OUT)
            break
        kept.append(line)
        left -= len(line) + 2
    return "\n\n".join(reversed(kept))


def _said(event: RoomEvent) -> str | None:
    """What the node and its agents say by the way, such as progress, is no part of a conversation."""
    if event.type != MESSAGE or event.is_redacted:
        return None
    if is_ours(event.content) and kind_of(event.content) not in _SAID:
        return None
    message = read(event.content)
    if message.msgtype not in {"m.text", "m.notice"} or message.replaces is not None or not message.body:
        return None
    body = message.body if len(message.body) <= MOST_OF_ONE else f"{message.body[:MOST_OF_ONE]} {LEFT_OUT}"
    return f"{one_line(event.sender, 255)}: {body}"
