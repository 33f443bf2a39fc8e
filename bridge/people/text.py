"""What is said to people: the same in plain text and in HTML, and the content of the message that says it.

A message of ours bears a mark, by which other nodes know it: what an agent says never gives work to another
agent by itself, or two of them would go on for ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from federation.message_content import HTML, Content, Html, MsgType, formatted
from federation.message_content import text as plain_content
from federation.pdu.limits import MAX_OWN_CONTENT_BYTES

MARK: Final = "io.palaver.people"
MOST_BYTES: Final = MAX_OWN_CONTENT_BYTES - 4_096
"""Of text and HTML together, as JSON; beside them there is what they relate to."""
MOST_BYTES_EDITABLE: Final = MOST_BYTES // 2
"""An edit says everything twice."""
CUT: Final = " […]"


class Kind(StrEnum):
    REQUEST = "request"
    PROGRESS = "progress"
    ANSWER = "answer"
    WORD = "word"
    """What the node has to say."""


@dataclass(frozen=True, slots=True)
class Text:
    plain: str
    html: Html

    @staticmethod
    def of(plain: str) -> "Text":
        return Text(plain, Html(plain))

    def __add__(self, other: "Text") -> "Text":
        return Text(self.plain + other.plain, self.html + other.html)


def joined(parts: Iterable[Html]) -> Html:
    """One behind the other. By halves: each addition copies what it adds to."""
    left = list(parts)
    while len(left) > 1:
        left = [left[at] + left[at + 1] if at + 1 < len(left) else left[at] for at in range(0, len(left), 2)]
    return left[0] if left else Html()


def content_of(
    text: Text,
    kind: Kind,
    *,
    task_id: str | None = None,
    msgtype: MsgType = "m.notice",
    mentions: Iterable[str] = (),
    most_bytes: int = MOST_BYTES,
) -> Content:
    """Without its HTML if it is too long with it, and cut if it still is. Nobody is mentioned who is not
    named here: what the text says calls nobody."""
    mark = {MARK: {"kind": kind.value, **({} if task_id is None else {"task_id": task_id})}}
    plain = text.plain
    if _size(plain) + _size(str(text.html)) <= most_bytes:
        return {**formatted(plain, text.html, msgtype=msgtype, mentions=mentions), **mark}
    if _size(plain) > most_bytes:
        plain = _cut(plain, most_bytes)
    return {**plain_content(plain, msgtype=msgtype, mentions=mentions), **mark}


def is_ours(content: Mapping[str, Any]) -> bool:
    """Whether a Palaver says it, this one or another."""
    return MARK in content


def kind_of(content: Mapping[str, Any]) -> Kind | None:
    """Of a message of ours; None for those of others, and for what this version does not know."""
    mark = content.get(MARK)
    kind = mark.get("kind") if isinstance(mark, dict) else None
    return Kind(kind) if isinstance(kind, str) and kind in frozenset(Kind) else None


def html_of(content: Mapping[str, Any]) -> str | None:
    """The form of what anybody may have sent."""
    html = content.get("formatted_body")
    return html if content.get("format") == HTML and isinstance(html, str) else None


def _size(text: str) -> int:
    """In bytes of JSON."""
    return len(orjson.dumps(text))


def _cut(text: str, most_bytes: int) -> str:
    """The longest beginning that fits: a character is one to six bytes of JSON."""
    low, high = 0, min(len(text), most_bytes)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) + len(CUT.encode()) <= most_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low] + CUT
