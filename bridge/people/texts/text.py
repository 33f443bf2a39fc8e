"""Texts of messages to people, in plain text and HTML, and the contents of these messages.

A message of Palaver has a mark by which other nodes recognise it. An agent's message never gives a task to
another agent, otherwise two agents could answer each other forever.

Text of agents, peers and people is cleaned before it is shown: control characters are removed, and so are
invisible characters and those that change the direction of text, because they can hide or forge content.
Joiners and variation selectors of letters and emoji are kept.
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
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^_`a-~])")
_LINE_END: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# Control characters except tab and line feed; direction marks, overrides and isolates; invisible characters;
# lone surrogates; tag characters, which encode invisible text.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BLANKS: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    """Remove control and invisible characters. Line feeds are kept."""
    if text.isascii() and text.isprintable():
        return text  # it has none of these characters
    return _INVISIBLE.sub("", _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def one_line(text: str, max_length: int) -> str:
    """Clean the text, join its lines and shorten it to `max_length` characters."""
    # The text may be very long; only a part of it is cleaned.
    line = _BLANKS.sub(" ", clean(text[: 4 * max_length])).strip()
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


def beginning(text: str, max_lines: int, max_characters: int) -> str:
    """Return the first lines of the text, or a part of the first line if that alone is too long."""
    lines: list[str] = []
    left = max_characters
    for line in text[: max_characters + 1].split("\n")[:max_lines]:
        if len(line) > left:
            if not lines:
                lines.append(line[:left])
            break
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


MARK: Final = "io.palaver.people"
MAX_BYTES: Final = MAX_OWN_CONTENT_BYTES - 4_096
"""Maximum bytes of text and HTML together as JSON. The rest of the content has the relations."""
MAX_BYTES_EDITABLE: Final = MAX_BYTES // 2
"""Maximum bytes of a message that will be edited: an edit contains its text twice."""
CUT: Final = " […]"
LONGEST_NAME: Final = 120
"""Maximum characters of a name that a remote user has chosen."""


class Kind(StrEnum):
    REQUEST = "request"
    PROGRESS = "progress"
    ANSWER = "answer"
    NOTICE = "word"
    """A message of the node itself."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text for people, as plain text and as HTML."""

    plain: str
    html: Html

    @staticmethod
    def of(plain: str) -> "Text":
        return Text(plain, Html(plain))

    def __add__(self, other: "Text") -> "Text":
        return Text(self.plain + other.plain, self.html + other.html)


def format_name(name: str) -> Text:
    """Format a name that a remote user has chosen as code, so that clients do not interpret it."""
    shown = one_line(name, LONGEST_NAME) or "–"
    return Text(shown, code(shown))


def concatenate(parts: Iterable[Html]) -> Html:
    """Concatenate the parts. Pairwise, because each addition copies both operands."""
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
    max_bytes: int = MAX_BYTES,
) -> Content:
    """Build the content of a message. If the text is too long, the HTML is omitted, and if necessary the
    plain text is cut. Only the users in `mentions` are mentioned, whatever names the text contains."""
    mark = {MARK: {"kind": kind.value, **({} if task_id is None else {"task_id": task_id})}}
    plain = text.plain
    if _size(plain) + _size(str(text.html)) <= max_bytes:
        return {**formatted_text(plain, text.html, msgtype=msgtype, mentions=mentions), **mark}
    if _size(plain) > max_bytes:
        plain = _cut(plain, max_bytes)
    return {**plain_content(plain, msgtype=msgtype, mentions=mentions), **mark}


def is_from_palaver(content: Mapping[str, Any]) -> bool:
    """Whether a message was sent by a Palaver, this one or another."""
    return MARK in content


def kind_of(content: Mapping[str, Any]) -> Kind | None:
    """Return the kind of a Palaver's message, or None for other messages and unknown kinds."""
    mark = content.get(MARK)
    kind = mark.get("kind") if isinstance(mark, dict) else None
    return Kind(kind) if isinstance(kind, str) and kind in frozenset(Kind) else None


def html_of(content: Mapping[str, Any]) -> str | None:
    """Return the HTML of a message, or None if it has none."""
    html = content.get("formatted_body")
    return html if content.get("format") == HTML and isinstance(html, str) else None


def _size(text: str) -> int:
    """The size as JSON, in bytes."""
    return len(orjson.dumps(text))


def _cut(text: str, max_bytes: int) -> str:
    """Return the longest beginning that fits, by binary search: a character is one to six bytes of JSON."""
    low, high = 0, min(len(text), max_bytes)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) + len(CUT.encode()) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low] + CUT
