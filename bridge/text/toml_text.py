"""Formats a value as TOML on one line."""

from typing import Any, Final

import tomli_w
from pydantic import ByteSize, TypeAdapter

_ANY: Final = TypeAdapter(Any)


def toml_value(value: Any) -> str:
    # tomli_w writes a table inside two lists inline. Strings have no raw line feeds in TOML, so every line
    # feed here is the library's layout.
    text = tomli_w.dumps({"value": [[_plain(value)]]}, indent=0)
    inner = text.removeprefix("value = [\n[\n").removesuffix(",\n],\n]\n")
    return inner.replace("[\n", "[").replace(",\n]", "]").replace(",\n", ", ")


def toml_key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def _plain(value: Any) -> Any:
    match value:
        case ByteSize():
            return _size(value)
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return _ANY.dump_python(value, mode="json")


def _size(count: int) -> str:
    for unit, weight in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count and count % weight == 0:
            return f"{count // weight}{unit}"
    return f"{count}B"
