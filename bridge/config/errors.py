"""Reads the configuration from TOML and the environment, and reports all mistakes at once."""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from bridge.agents.local.command import TASK_PREFIX
from bridge.config.config import Config
from bridge.config.section import Section
from bridge.config.toml_mistake import excerpt, explain, word_list
from bridge.text.toml_text import toml_value

PREFIX = "PALAVER_"
# Read by the command line; not settings of the configuration.
RESERVED = frozenset({"PALAVER_CONFIG"})

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Mistake:
    """An error in the configuration: its location, what is wrong, what to do, and the line with a caret."""

    where: str
    problem: str
    advice: str
    excerpt: str = ""

    def __str__(self) -> str:
        sentence = f"{self.where}: {self.problem}. {self.advice}"
        return f"{sentence}\n{self.excerpt}" if self.excerpt else sentence


def read_config(text: str, environ: Mapping[str, str]) -> Config | list[Mistake]:
    """Return the configuration in `text`, overridden by the variables `PALAVER_…`, or all mistakes in
    them."""
    try:
        # With a line feed a mistake in the last line has a place.
        values = tomllib.loads(f"{text}\n")
    except tomllib.TOMLDecodeError as error:
        found = explain(text, error, _BLOCKS)
        where = "the end of the file" if found.line is None else f"line {found.line}"
        return [Mistake(where, found.problem, found.advice, found.excerpt)]
    mistakes = [
        mistake for name, value in overrides(environ).items() if (mistake := _override(values, name, value)) is not None
    ]
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        return mistakes + [_mistake(text, environ, detail) for detail in error.errors()]
    return mistakes or config


def overrides(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that override settings: `PALAVER_LISTENER__PORT` is `listener.port`."""
    return {
        name: value
        for name, value in sorted(environ.items())
        # An agent's process has its task in these variables, and may call `palaver`.
        if name.startswith(PREFIX) and name not in RESERVED and not name.startswith(TASK_PREFIX)
    }


def _override(values: dict[str, Any], name: str, text: str) -> Mistake | None:
    *sections, field = name.removeprefix(PREFIX).lower().split("__")
    table = values
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            return Mistake(name, f"{section} is not a section", "See config.example.toml for the names.")
    try:
        # Lists and tables are TOML, as in the file; any other value is the variable's literal text.
        table[field] = tomllib.loads(f"value = {text}")["value"] if text[:1] in "[{" else text
    except tomllib.TOMLDecodeError:
        return Mistake(name, "it is not a valid TOML value", 'Write lists like ["127.0.0.0/8", "::1/128"].')
    return None


def _mistake(text: str, environ: Mapping[str, str], detail: ErrorDetails) -> Mistake:
    loc, kind, message, given = detail["loc"], detail["type"], detail["msg"], detail["input"]
    where = _where(text, environ, loc)
    model, field = _field_at(loc)
    name = next((part for part in reversed(loc) if isinstance(part, str)), "")
    if kind == "extra_forbidden":
        known = list(model.model_fields)
        close = difflib.get_close_matches(str(loc[-1]), known, n=1)
        advice = f"Did you mean {close[0]}?" if close else f"The settings here are: {', '.join(known)}."
        return Mistake(where, "there is no such setting", advice, _excerpt(text, environ, loc))
    if kind == "list_type" and isinstance(given, dict) and name in _BLOCKS:
        advice = f"Write [[{name}]], in two brackets, above each of them."
        return Mistake(where, "there can be several of these blocks", advice, _excerpt(text, environ, loc))
    if kind in {"model_type", "dict_type"} and isinstance(given, list):
        advice = f"Write [{name}], in one bracket, once."
        return Mistake(where, "there is only one such section", advice, _excerpt(text, environ, loc))
    if kind == "list_type" and isinstance(given, str):
        advice = f"Write {name} = {word_list(given)}."
        return Mistake(where, "it is a list", advice, _excerpt(text, environ, loc))
    if kind == "value_error":
        # The validators of this package raise "what is wrong: what to do".
        problem, _, advice = message.removeprefix("Value error, ").partition(": ")
        end = "" if advice.endswith("?") else "."
        return Mistake(where, problem, f"{advice[:1].upper()}{advice[1:]}{end}" if advice else _example(loc, field))
    problem = "it is missing" if kind == "missing" else message[:1].lower() + message[1:]
    return Mistake(where, problem, _example(loc, field))


def _excerpt(text: str, environ: Mapping[str, str], loc: Location) -> str:
    """The line of a setting in the file, without its value, which may be a secret in the wrong place."""
    line = None if _variable_of(environ, loc) is not None else line_of(text, loc)
    if line is None:
        return ""
    content = text.splitlines()[line - 1]
    return excerpt(content, line, len(content) - len(content.lstrip()) + 1, with_value=False)


def _example(loc: Location, field: FieldInfo | None) -> str:
    if field is None:
        return "See config.example.toml."
    name = next(part for part in reversed(loc) if isinstance(part, str))
    example = toml_value(field.examples[0] if field.examples else field.default)
    return f"Example: `{name} = {example}`. {field.description}"


def _where(text: str, environ: Mapping[str, str], loc: Location) -> str:
    dotted = ".".join(str(part) for part in loc) or "the configuration"
    variable = _variable_of(environ, loc)
    if variable is not None:
        return variable
    line = line_of(text, loc)
    return dotted if line is None else f"{dotted} (line {line})"


def _variable_of(environ: Mapping[str, str], loc: Location) -> str | None:
    """The environment variable that overrides the setting."""
    variable = PREFIX + "__".join(str(part) for part in loc).upper()
    return next((name for name in sorted(environ) if name == variable or name.startswith(f"{variable}__")), None)


def _field_at(loc: Location) -> tuple[type[Section], FieldInfo | None]:
    """Return the model that contains `loc`, and its field there, if any."""
    model: type[Section] = Config
    field: FieldInfo | None = None
    for part in loc:
        if isinstance(part, int):
            continue
        inner = _model_in(field.annotation) if field is not None else None
        if inner is not None:
            model = inner
        elif field is not None:
            break  # below a field that is not a section, `loc` names only branches of a union
        field = model.model_fields.get(part)
        if field is None:
            break
    return model, field


def _model_in(annotation: Any) -> type[Section] | None:
    candidates = get_args(annotation) if get_origin(annotation) is not None else (annotation,)
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, Section)), None)


_BLOCKS: Final = frozenset(
    name
    for name, field in Config.model_fields.items()
    if get_origin(field.annotation) is list and _model_in(field.annotation) is not None
)
"""The sections that are written as `[[name]]`, once for each."""


def line_of(text: str, loc: Sequence[str | int]) -> int | None:
    """Return the line number of the setting `loc`. `tomllib` returns values without their positions."""
    path = [part for part in loc if isinstance(part, str)]
    index = next((part for part in loc if isinstance(part, int)), 0)
    table: list[str] = []
    blocks: dict[str, int] = {}
    found: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]", line):
            table = header[2].split(".")
            if header[1] == "[[":
                blocks[header[2]] = blocks.get(header[2], -1) + 1
            if table == path and blocks.get(header[2], 0) == index:
                found = number
        elif setting := re.match(r"\s*([\w\-]+)\s*=", line):
            here = [*table, setting[1]]
            if here == path[: len(here)] and blocks.get(".".join(table), 0) == (index if table else 0):
                found = number
    return found
