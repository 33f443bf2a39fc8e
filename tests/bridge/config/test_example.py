"""`config.example.toml` documents every setting and no other."""

import re
import tomllib
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from bridge.config.config import Config
from bridge.config.example import render
from bridge.config.section import Section

EXAMPLE = Path(__file__).parents[3] / "config.example.toml"


def _settings(model: type[Section], prefix: str = "") -> set[str]:
    names = set()
    for name, field in model.model_fields.items():
        inner = [kind for kind in _kinds(field.annotation) if isinstance(kind, type) and issubclass(kind, Section)]
        names |= _settings(inner[0], f"{prefix}{name}.") if inner else {prefix + name}
    return names


def _kinds(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (list, UnionType) else (annotation,)


def _uncommented() -> dict[str, Any]:
    return tomllib.loads(re.sub(r"^# (?=\[|\w+ = )", "", EXAMPLE.read_text("utf-8"), flags=re.MULTILINE))


def _tables(model: type[Section], prefix: str = "") -> set[str]:
    """Settings whose keys are the operator's own."""
    return {name for name in _settings(model, prefix) if name.rpartition(".")[2] in ("permissions", "environment")}


def _mentioned(values: dict[str, Any], prefix: str = "") -> set[str]:
    names = set()
    for name, value in values.items():
        if isinstance(value, dict) and f"{prefix}{name}" not in _tables(Config):
            names |= _mentioned(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            names |= _mentioned(value[0], f"{prefix}{name}.")
        else:
            names.add(prefix + name)
    return names


def test_the_example_has_every_setting_and_no_other() -> None:
    """Compared with the models when all settings are uncommented."""
    assert _mentioned(_uncommented()) == _settings(Config)


def test_the_example_is_the_default() -> None:
    """The unchanged file has the same effect as no file."""
    assert Config.model_validate(tomllib.loads(EXAMPLE.read_text("utf-8"))) == Config()


def test_the_example_is_up_to_date() -> None:
    """`palaver config example > config.example.toml` updates it."""
    assert EXAMPLE.read_text("utf-8") == render()


def test_every_setting_has_a_comment() -> None:
    """The line above each setting is a comment."""
    lines = EXAMPLE.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"(# )?\w+ = ", line):
            assert re.match(r"# [A-Z`]", lines[number - 1]) or lines[number - 1].startswith("# "), line


def test_a_top_level_value_can_be_replaced() -> None:
    """`palaver init --server-name` writes the example with one line changed."""
    changed = [
        pair
        for pair in zip(render().splitlines(), render({"server_name": "a.example"}).splitlines(), strict=True)
        if len(set(pair)) > 1
    ]
    assert changed == [('server_name = "localhost:7676"', 'server_name = "a.example"')]
