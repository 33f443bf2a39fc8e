"""Renders `config.example.toml` from the models, so that both always have the same fields."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from bridge.config.config import Config
from bridge.config.section import Section
from bridge.text.toml_text import toml_key, toml_value

WIDTH = 110
HEAD = """\
The configuration of Palaver. This file contains every setting. A setting that is commented out has no default
value and shows an example; every other setting shows its default. A setting can also be set by an environment
variable: PALAVER_SERVER_NAME, PALAVER_LISTENER__PORT, PALAVER_DATABASE__URL, and so on. `palaver config
check` reports the mistakes in this file."""


def render(values: Mapping[str, Any] | None = None) -> str:
    """Return the complete file. `values` replaces the defaults of top-level settings."""
    blocks = ["\n".join(_comment(HEAD)), *_settings(Config, values or {}), *_sections(Config, "")]
    return "\n\n".join(blocks) + "\n"


def _settings(model: type[Section], values: Mapping[str, Any], *, always_comment: bool = False) -> list[str]:
    return [
        _setting(name, field, values, always_comment=always_comment)
        for name, field in model.model_fields.items()
        if section_of(field) is None and not is_table(field)
    ]


def _sections(model: type[Section], prefix: str) -> Iterator[str]:
    """Render lists of sections last: in TOML, settings below a header belong to that header's section."""
    fields = model.model_fields.items()
    for name, field in fields:
        section = section_of(field)
        if is_table(field):
            yield _table(prefix + name, field)
        elif section is not None and not is_list(field):
            yield "\n".join([*_comment(section.__doc__ or ""), f"[{prefix}{name}]"])
            yield from _settings(section, {})
            yield from _sections(section, f"{prefix}{name}.")
    for name, field in fields:
        section = section_of(field)
        if section is not None and is_list(field):
            yield "\n".join([*_comment(section.__doc__ or ""), f"# [[{prefix}{name}]]"])
            yield from _settings(section, {}, always_comment=True)


def _table(name: str, field: FieldInfo) -> str:
    """Render a section whose keys the operator chooses."""
    assert field.examples, f"{name} needs an example of a key"
    shown = [f"{toml_key(key)} = {toml_value(value)}" for key, value in field.default.items()]
    example = [f"# {toml_key(key)} = {toml_value(value)}" for key, value in field.examples[0].items()]
    known = {line.split(" = ")[0] for line in shown}
    further = [line for line in example if line.removeprefix("# ").split(" = ")[0] not in known]
    return "\n".join([*_comment(field.description or ""), f"[{name}]", *shown, *further])


def section_of(field: FieldInfo) -> type[Section] | None:
    """Return the section that is the field's type, or the type of its items."""
    kinds = get_args(field.annotation) if is_list(field) else (field.annotation,)
    return next((one for one in kinds if isinstance(one, type) and issubclass(one, Section)), None)


def is_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is list


def is_table(field: FieldInfo) -> bool:
    """Whether the field is rendered as a section with free keys. Other mappings are inline tables."""
    return field is Config.model_fields["permissions"]


def _setting(name: str, field: FieldInfo, values: Mapping[str, Any], *, always_comment: bool = False) -> str:
    value = values.get(name, None if field.is_required() else field.default)
    shown = value if value is not None and (value not in ([], {}) or not field.examples) else None
    if shown is None:
        assert field.examples, f"{name} has no default, so it needs an example"
        shown, always_comment = field.examples[0], True
    line = f"{name} = {toml_value(shown)}"
    return "\n".join([*_comment(field.description or ""), f"# {line}" if always_comment else line])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")
