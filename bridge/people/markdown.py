"""What agents write, in the manner of Markdown, as HTML: paragraphs, headings, lists, quotes, code.

It is put together with `federation.message_content`, whose tags are all that there are: whatever the text
holds, it comes out as text.
"""

import re
from collections.abc import Iterator
from typing import Final

from bridge.people.inline_markdown import inline
from bridge.people.text import joined
from federation.message_content import Html, bold, code_block, listed, paragraph, quote

MOST_NESTED: Final = 6

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
_ITEM: Final = re.compile(r"(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(\S.*)$")
_QUOTE: Final = re.compile(r" {0,3}> ?(.*)$")
_RULES: Final = frozenset("-*_")
_TABLE: Final = re.compile(r"\s*\|.*\|\s*$")
_LINE: Final = "———"


def to_html(text: str) -> Html:
    """Of text that has been cleaned."""
    return joined(_blocks(text.split("\n"), 0))


def _blocks(lines: list[str], depth: int) -> Iterator[Html]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif (fence := _FENCE.match(line)) is not None:
            at, block = _fenced(lines, at, fence[1], fence[2])
            yield block
        elif (heading := _HEADING.match(line)) is not None:
            at += 1
            yield paragraph(bold(inline(heading[1])))
        elif _is_rule(line):
            at += 1
            yield paragraph(_LINE)
        elif _TABLE.match(line) is not None:
            end = _while(lines, at, _TABLE)
            # In letters of one width its columns stand below each other.
            yield code_block("\n".join(lines[at:end]))
            at = end
        elif depth < MOST_NESTED and _QUOTE.match(line) is not None:
            end = _while(lines, at, _QUOTE)
            inner = [found[1] for one in lines[at:end] if (found := _QUOTE.match(one)) is not None]
            yield quote(joined(_blocks(inner, depth + 1)))
            at = end
        elif depth < MOST_NESTED and (item := _ITEM.match(line)) is not None:
            at, block = _list(lines, at, len(item[1]), is_ordered=item[2] is not None, depth=depth)
            yield block
        else:
            end = _end_of_paragraph(lines, at, depth)
            yield paragraph(inline("\n".join(one.strip() for one in lines[at:end])))
            at = end


def _fenced(lines: list[str], at: int, fence: str, language: str) -> tuple[int, Html]:
    """Up to a fence that is at least as long, or to the end: the rest may have been cut off."""
    end = at + 1
    while end < len(lines):
        stripped = lines[end].strip()
        if len(stripped) >= len(fence) and set(stripped) == {fence[0]}:
            break
        end += 1
    return end + 1, code_block("\n".join(lines[at + 1 : end]), language)


def _list(lines: list[str], at: int, indent: int, *, is_ordered: bool, depth: int) -> tuple[int, Html]:
    """Items that are as far in as the first one. What is further in belongs to the item above it."""
    items: list[Html] = []
    while at < len(lines):
        item = _ITEM.match(lines[at])
        if item is None or len(item[1]) != indent or (item[2] is not None) != is_ordered:
            break
        end = at + 1
        while end < len(lines) and (_indent(lines[end]) > indent or _goes_on(lines, end, indent)):
            end += 1
        inner = [item[3], *lines[at + 1 : end]]
        items.append(_item(inner, depth))
        at = end
    return at, listed(items, ordered=is_ordered)


def _item(lines: list[str], depth: int) -> Html:
    """Its first paragraph stands in the item itself."""
    end = 1
    while end < len(lines) and not _begins_block(lines[end]) and lines[end].strip():
        end += 1
    said = inline("\n".join(one.strip() for one in lines[:end]))
    return said + joined(_blocks(_dedented(lines[end:]), depth + 1))


def _dedented(lines: list[str]) -> list[str]:
    least = min((_indent(line) for line in lines if line.strip()), default=0)
    return [line[least:] for line in lines]


def _goes_on(lines: list[str], at: int, indent: int) -> bool:
    """An empty line within an item."""
    return not lines[at].strip() and at + 1 < len(lines) and _indent(lines[at + 1]) > indent


def _end_of_paragraph(lines: list[str], at: int, depth: int) -> int:
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _begins_block(lines[end], depth):
        end += 1
    return end


def _begins_block(line: str, depth: int = 0) -> bool:
    kinds = [_FENCE, _HEADING, _TABLE, *([_QUOTE, _ITEM] if depth < MOST_NESTED else [])]
    return _is_rule(line) or any(kind.match(line) is not None for kind in kinds)


def _is_rule(line: str) -> bool:
    """CommonMark: "three or more matching `-`, `_`, or `*` characters, each followed optionally by any number
    of spaces or tabs"."""
    signs = line.replace(" ", "").replace("\t", "")
    return len(signs) >= 3 and signs[0] in _RULES and not signs.strip(signs[0])


def _while(lines: list[str], at: int, kind: re.Pattern[str]) -> int:
    while at < len(lines) and kind.match(lines[at]) is not None:
        at += 1
    return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
