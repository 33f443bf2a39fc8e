"""As much of YAML as people write into a file of settings: mappings and lists in lines, texts with quotes or
without, comments. JSON is read too, of which YAML is a superset.

What is not understood is refused with its line, and never taken for something else: no anchors, no tags, no
texts of several lines.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

MOST_LINES: Final = 10_000
MOST_LEVELS: Final = 50

_KEY: Final = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#&*!|>%@`\[\]{},?:-][^:#]*?)\s*:(?:\s+(?P<rest>.*)|)$"""
)
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE: Final = re.compile(r"'(?:[^']|'')*'")
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
# What different versions take for different things, and what begins something that is not read here.
_UNCLEAR: Final = frozenset({"yes", "no", "on", "off", "y", "n"})
_INDICATORS: Final = tuple("&*!|>%@`{}],?")


@dataclass(frozen=True, slots=True)
class NotYaml:
    """Where and why: a sentence without what stands there, which may be a secret."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


class _Wrong(Exception):
    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"Line {line}: {why}.")


def read_yaml(text: str) -> Any | NotYaml:
    """Mappings with texts for keys, lists, texts, integers, true, false, and None."""
    if text.lstrip().startswith("{"):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return NotYaml(f"Line {error.lineno}: this is not JSON.")
    try:
        lines = _lines(text)
        if not lines:
            return None
        value, after = _block(lines, 0, lines[0].indent, 0)
        if after < len(lines):
            raise _Wrong(lines[after].number, "it is indented otherwise than what stands before it")
    except _Wrong as wrong:
        return NotYaml(str(wrong))
    return value


def _lines(text: str) -> list[_Line]:
    found: list[_Line] = []
    every = text.removeprefix("\ufeff").splitlines()
    if len(every) > MOST_LINES:
        raise _Wrong(MOST_LINES, "there are too many lines")
    for number, line in enumerate(every, start=1):
        content = line.strip()
        if not content or content.startswith("#") or (content == "---" and not found):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if line[indent] == "\t":
            raise _Wrong(number, "it is indented with a tab, write blanks")
        found.append(_Line(number, indent, content))
    return found


def _block(lines: Sequence[_Line], start: int, indent: int, level: int) -> tuple[Any, int]:
    """What stands at this indent from here on, and where it ends."""
    if level > MOST_LEVELS:
        raise _Wrong(lines[start].number, "it is nested too deep")
    if _is_item(lines[start].text):
        return _items(lines, start, indent, level)
    if _KEY.fullmatch(lines[start].text) is None:
        return _scalar(lines[start].text, lines[start].number), start + 1
    return _mapping(lines, start, indent, level)


def _items(lines: Sequence[_Line], start: int, indent: int, level: int) -> tuple[list[Any], int]:
    found = []
    at = start
    while at < len(lines) and lines[at].indent == indent and _is_item(lines[at].text):
        line = lines[at]
        rest = line.text[1:].lstrip()
        if not rest or rest.startswith("#"):
            value, at = _below(lines, at, indent, level)
        elif _is_item(rest) or _KEY.fullmatch(rest) is not None:
            # A mapping or a list that begins in the line of its dash stands where its first word does.
            inner = _Line(line.number, indent + len(line.text) - len(rest), rest)
            value, used = _block([inner, *lines[at + 1 :]], 0, inner.indent, level + 1)
            at += used
        else:
            value, at = _scalar(rest, line.number), at + 1
        found.append(value)
    return found, at


def _mapping(lines: Sequence[_Line], start: int, indent: int, level: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = start
    while at < len(lines) and lines[at].indent == indent and not _is_item(lines[at].text):
        line = lines[at]
        match = _KEY.fullmatch(line.text)
        if match is None:
            raise _Wrong(line.number, "it is no name with a colon behind it")
        key = str(_scalar(match["key"], line.number)) if match["key"][0] in "\"'" else match["key"]
        if key in found:
            raise _Wrong(line.number, "this name stands here twice")
        rest = match["rest"] or ""
        if not rest or rest.startswith("#"):
            found[key], at = _below(lines, at, indent, level)
        else:
            found[key], at = _scalar(rest, line.number), at + 1
    return found, at


def _below(lines: Sequence[_Line], at: int, indent: int, level: int) -> tuple[Any, int]:
    """What a name or a dash that has nothing behind it holds. A list may stand as far left as its name."""
    below = at + 1
    if below < len(lines):
        is_list_of_name = (
            lines[below].indent == indent and _is_item(lines[below].text) and not _is_item(lines[at].text)
        )
        if lines[below].indent > indent or is_list_of_name:
            return _block(lines, below, lines[below].indent, level + 1)
    return None, below


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(text: str, number: int) -> Any:
    if text[0] in "\"'":
        return _quoted(text, number)
    plain = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    if plain.startswith("["):
        return _flow(plain, number)
    if plain == "{}":
        return {}
    if plain.startswith(_INDICATORS) or re.search(r":(\s|$)", plain):
        raise _Wrong(number, "this is not understood, write the text in quotes")
    if plain.lower() in _UNCLEAR:
        raise _Wrong(number, "write true or false, or the word in quotes")
    if plain.lower() in _WORDS:
        return _WORDS[plain.lower()]
    return int(plain) if _INTEGER.fullmatch(plain) and len(plain) < 19 else plain


def _quoted(text: str, number: int) -> str:
    match = (_DOUBLE if text[0] == '"' else _SINGLE).match(text)
    if match is None or re.fullmatch(r"(\s+#.*|\s*)", text[match.end() :]) is None:
        raise _Wrong(number, "the quotes do not end where the text does")
    if text[0] == "'":
        return match[0][1:-1].replace("''", "'")
    try:
        # The escapes that YAML has beyond those of JSON nobody writes into such a file.
        return str(orjson.loads(match[0]))
    except orjson.JSONDecodeError:
        raise _Wrong(number, "there is a backslash that means nothing in JSON") from None


def _flow(text: str, number: int) -> list[Any]:
    """A list in one line, of texts."""
    if not text.endswith("]"):
        raise _Wrong(number, "a list in brackets ends in its line")
    inner = text[1:-1].strip()
    if not inner:
        return []
    if re.search(r"[\"'\[\]{}]", inner):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise _Wrong(number, "write this list in lines of its own") from None
        assert isinstance(found, list), "it stands in brackets"
        return found
    return [_scalar(one.strip() or '""', number) for one in inner.split(",")]
