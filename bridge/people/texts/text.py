"""What is said to people: the same in plain text and in HTML, and the content of the message that says it.

A message of ours bears a mark, by which other nodes know it: what an agent says never gives work to another
agent by itself, or two of them would go on for ever.

Text of agents, of peers and of people, before it is shown to anybody.

Control characters go, and so does what changes the direction of others or is never seen: it would hide what
is said, or say something else. What joins and selects the forms of letters and emoji stays.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.matrix.message_content import HTML, Content, Html, MsgType, code, formatted_text
from federation.matrix.message_content import text as plain_content

# Sequences for terminals: ECMA-48, 5.4 (CSI), 5.6 (OSC and the like), and those of two bytes.
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^_`a-~])"
)
_LINE_END: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# Control characters but for tab and line feed; marks, overrides and isolates of direction; what is invisible;
# halves of surrogate pairs; tags, which spell out text that nobody sees.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BLANKS: Final = re.compile(r"\s+")


def cleaned(text: str) -> str:
    """In lines."""
    if text.isascii() and text.isprintable():
        return text  # nothing of what follows is in it
    return _UNSEEN.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def one_line(text: str, most: int) -> str:
    """At most so many characters of it, in one line."""
    # What is cut off is not looked at: text may be long.
    line = _BLANKS.sub(" ", cleaned(text[: 4 * most])).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def beginning(text: str, most_lines: int, most_characters: int) -> str:
    """Whole lines of it, unless the first one is too long by itself."""
    lines: list[str] = []
    left = most_characters
    for line in text[: most_characters + 1].split("\n")[:most_lines]:
        if len(line) > left:
            if not lines:
                lines.append(line[:left])
            break
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


MARK: Final = "io.palaver.people"
MOST_BYTES: Final = MAX_OWN_CONTENT_BYTES - 4_096
"""Of text and HTML together, as JSON; beside them there is what they relate to."""
MOST_BYTES_EDITABLE: Final = MOST_BYTES // 2
"""An edit says everything twice."""
CUT: Final = " […]"
LONGEST_NAME: Final = 120
"""Characters of a name that somebody else has chosen."""


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


def shown_name(name: str) -> Text:
    """Of a stranger's choice: in code no client makes anything of it."""
    shown = one_line(name, LONGEST_NAME) or "–"
    return Text(shown, code(shown))


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
        return {**formatted_text(plain, text.html, msgtype=msgtype, mentions=mentions), **mark}
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
