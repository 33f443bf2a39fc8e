"""`config.example.toml`, rendered from the models so that neither can forget a field of the other."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from bridge.config import Config
from bridge.config_federation import Peer
from bridge.config_section import Section
from bridge.toml_text import toml_value

WIDTH = 110
HEAD = """\
Palaver's configuration. Every setting is here; those that are commented out have no value until you give
them one, all others show the value that holds when they are left out. A setting can also be given in the
environment: PALAVER_SERVER_NAME, PALAVER_LISTENER__PORT, PALAVER_DATABASE__URL, and so on. `palaver config
check` reads this file and says what is wrong with it."""


def render(values: Mapping[str, Any] | None = None) -> str:
    """The whole file; `values` takes the place of defaults of the settings at the top."""
    blocks = ["\n".join(_comment(HEAD))]
    blocks += [_setting(name, field, values or {}) for name, field in _plain(Config)]
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            blocks.append("\n".join([*_comment(section.__doc__ or ""), f"[{name}]"]))
            blocks += [_setting(inner, inner_field, {}) for inner, inner_field in _plain(section)]
    blocks.append("\n".join([*_comment(Peer.__doc__ or ""), "# [[peers]]"]))
    blocks += [_setting(name, field, {}, always_comment=True) for name, field in _plain(Peer)]
    return "\n\n".join(blocks) + "\n"


def _plain(model: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        nested = isinstance(field.annotation, type) and issubclass(field.annotation, Section)
        if not nested and not (model is Config and name == "peers"):
            yield name, field


def _setting(name: str, field: FieldInfo, values: Mapping[str, Any], *, always_comment: bool = False) -> str:
    value = values.get(name, None if field.is_required() else field.default)
    shown = value if value is not None and (value != [] or not field.examples) else None
    if shown is None:
        assert field.examples, f"{name} has no default, so it needs an example"
        shown, always_comment = field.examples[0], True
    line = f"{name} = {toml_value(shown)}"
    return "\n".join([*_comment(field.description or ""), f"# {line}" if always_comment else line])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")
