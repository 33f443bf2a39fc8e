"""Text within a line as agents write it, in the manner of Markdown: code, emphasis, links.

What is none of these stays what it is. A link shows where it leads, and links that do something in a client,
those to users and rooms of Matrix, are no links.
"""

import re
from collections.abc import Iterator
from typing import Final

from bridge.people.text import joined
from federation.message_content import Html, bold, code, italic, link

MOST_NESTED: Final = 4

_MARKS: Final = re.compile(r"[\\`*_\[<!]")
_BACKTICKS: Final = re.compile(r"`+")
# CommonMark: "any ASCII punctuation character may be backslash-escaped".
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_LINK: Final = re.compile(
    r"!?\[([^\[\]\n]{0,500})\]\(\s*<?([^\s<>()]{1,1000}(?:\([^\s<>()]{0,200}\))?)>?[^()\n]{0,200}\)"
)
_AUTOLINK: Final = re.compile(r"<((?:https?://|mailto:)[^\s<>]{1,1000})>")
_MATRIX: Final = re.compile(r"(?:https?://)?(?:www\.)?matrix\.to/\S*|\bmatrix:\S+", re.IGNORECASE)


def inline(text: str) -> Html:
    return _Line(text, 0).html()


class _Line:
    """Read from left to right, once. For an opening mark whose closing one was not found none of its kind is
    looked for again, so that hostile text takes no longer than other."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._said: list[Html] = []
        self._plain_from = 0
        self._never_closed: set[str] = set()

    def html(self) -> Html:
        at = 0
        while (found := _MARKS.search(self._text, at)) is not None:
            at = self._mark(found.start())
        self._say_plain(len(self._text))
        return joined(self._said)

    def _mark(self, at: int) -> int:
        """Where to read on."""
        text = self._text
        match text[at]:
            case "\\" if text[at + 1 : at + 2] in _PUNCTUATION and at + 1 < len(text):
                # The sign behind it is text, and stays in the plain run that begins there.
                self._say_plain(at)
                self._plain_from = at + 1
                return at + 2
            case "`":
                return self._code(at)
            case "*" | "_":
                return self._emphasis(at)
            case "[" | "!":
                found = _LINK.match(text, at)
                return (
                    at + 1 if found is None else self._put(at, found.end(), _shown_link(found[1], found[2]))
                )
            case "<":
                found = _AUTOLINK.match(text, at)
                return at + 1 if found is None else self._put(at, found.end(), _safe_link(found[1], found[1]))
        return at + 1

    def _code(self, at: int) -> int:
        run = _BACKTICKS.match(self._text, at)
        assert run is not None, "there is one"
        end = self._closing(run[0], run.end())
        if end is None:
            return run.end()
        inner = self._text[run.end() : end]
        # CommonMark: "one space is stripped from the front and back", so that there may be backticks.
        if len(inner) > 2 and inner[0] == inner[-1] == " ":
            inner = inner[1:-1]
        return self._put(at, end + len(run[0]), code(inner.replace("\n", " ")))

    def _emphasis(self, at: int) -> int:
        text = self._text
        mark = text[at] * 2 if text.startswith(text[at] * 2, at) else text[at]
        begin = at + len(mark)
        inside_word = mark[0] == "_" and at > 0 and text[at - 1].isalnum()
        if inside_word or begin >= len(text) or text[begin].isspace() or self._depth >= MOST_NESTED:
            return begin
        end = self._closing(mark, begin)
        if end is None or end == begin or text[end - 1].isspace():
            return begin
        if mark[0] == "_" and text[end + len(mark) : end + len(mark) + 1].isalnum():
            return begin
        inner = _Line(text[begin:end], self._depth + 1).html()
        return self._put(at, end + len(mark), bold(inner) if len(mark) == 2 else italic(inner))

    def _closing(self, mark: str, begin: int) -> int | None:
        if mark in self._never_closed:
            return None
        at = self._text.find(mark, begin)
        if at < 0:
            self._never_closed.add(mark)
            return None
        return at

    def _put(self, begin: int, end: int, html: Html) -> int:
        self._say_plain(begin)
        self._said.append(html)
        self._plain_from = end
        return end

    def _say_plain(self, end: int) -> None:
        self._said += _without_matrix_links(self._text[self._plain_from : end])
        self._plain_from = end


def _shown_link(inner: str, address: str) -> Html:
    """The text and where it leads, which nobody can hide behind it."""
    if inner == address or not inner:
        return _safe_link(address, address)
    return joined([*_without_matrix_links(inner), Html(" ("), _safe_link(address, address), Html(")")])


def _without_matrix_links(text: str) -> Iterator[Html]:
    """Clients make links of what looks like one, and of these more than that; in code they do not."""
    at = 0
    for found in _MATRIX.finditer(text):
        yield Html(text[at : found.start()])
        yield code(found[0])
        at = found.end()
    yield Html(text[at:])


def _safe_link(address: str, inner: str) -> Html:
    return code(inner) if _MATRIX.search(address) is not None else link(address, inner)
