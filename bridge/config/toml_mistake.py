"""Explains why a configuration is not valid TOML: the line with a caret, and what was probably meant."""

import re
import shlex
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from bridge.text.toml_text import toml_value

_PLACE: Final = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
_HEADER: Final = re.compile(r"\s*(?P<brackets>\[\[?)\s*(?P<name>[\w.\-]+)")
_SETTING: Final = re.compile(r"\s*(?P<key>[\w.\-]+)\s*=\s*(?P<value>[^#]*?)\s*(?:#.*)?")
_BARE: Final = re.compile(r"[^\s\"'\[\]{}=,][^\"'\[\]{}=,]*")
_CURLY: Final = re.compile(r"[“”„‘’]")
_SECRET: Final = re.compile(r"pass|secret|token|key|url", re.IGNORECASE)
LONGEST_LINE: Final = 64
COMPARE: Final = "Compare that line with config.example.toml."


@dataclass(frozen=True, slots=True)
class TomlMistake:
    """`line` is None at the end of the file. `excerpt` is that line with a caret below it."""

    line: int | None
    problem: str
    advice: str
    excerpt: str


def explain(text: str, error: tomllib.TOMLDecodeError, blocks: Collection[str]) -> TomlMistake:
    """`blocks` are the names of sections that are written as `[[name]]`, once for each."""
    message = str(error)
    place = _PLACE.search(message)
    said = message if place is None else message[: place.start()]
    if place is None or place["line"] is None:
        return TomlMistake(None, f"it is not valid TOML: {_lower(said)} at its end", COMPARE, "")
    number, column = int(place["line"]), int(place["column"])
    line = text.split("\n")[number - 1]
    problem, advice = _guess(line, said, blocks)
    return TomlMistake(number, problem, advice, excerpt(line, number, column))


def _guess(line: str, said: str, blocks: Collection[str]) -> tuple[str, str]:
    header, setting = _HEADER.match(line), _SETTING.fullmatch(line)
    if "twice" in said or "overwrite" in said:
        if header is not None:
            name = header["name"]
            if name in blocks:
                return f"there are several blocks {name}", f"Write [[{name}]], in two brackets, above each of them."
            return f"the section [{name}] is there twice", f"Write all its settings below one [{name}]."
        if setting is not None:
            return f"{setting['key']} is given twice", "Keep one of them."
    if _CURLY.search(line):
        return "it has curly quotes", 'Write straight ones: "…".'
    if setting is not None and _BARE.fullmatch(setting["value"]):
        key, value = setting["key"], setting["value"]
        if key == "command":
            return "a command is a list", f"Write {key} = {word_list(value)}."
        return "text needs quotes", f"Write {key} = {toml_value('…' if _SECRET.search(key) else value)}."
    if "Illegal character '\\n'" in said or "Expected '\"'" in said:
        return "a quote is missing at the end", COMPARE
    if "hex value" in said or "Unescaped '\\'" in said:
        return (
            "a backslash in double quotes has a special meaning",
            "Write the text in single quotes, like 'C:\\data'.",
        )
    return f"it is not valid TOML: {_lower(said)}", COMPARE


def word_list(text: str) -> str:
    """The words of a command line as a list, without what may be a secret."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    return toml_value(["…"] if _SECRET.search(text) else words)


def excerpt(line: str, number: int, column: int, *, with_value: bool = True) -> str:
    """The line with a caret below its `column`, which counts from 1. A value that may be a secret is left
    out."""
    line = line.expandtabs(1)
    setting = re.match(r"\s*([\w.\-]+)\s*[=:]\s*", line)
    if _SECRET.search(line) or "://" in line or (setting is not None and not with_value):
        start = setting.end() if setting is not None else 0
        line, column = f"{line[:start]}…", min(column, start + 1)
    if len(line) > LONGEST_LINE:
        line, column = f"{line[:LONGEST_LINE]}…", min(column, LONGEST_LINE + 1)
    margin = f"    {number} | "
    return f"{margin}{line}\n{' ' * (len(margin) - 2)}| {' ' * (column - 1)}^"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
