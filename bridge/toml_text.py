"""A value as it is written in a TOML file."""

import re
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

from pydantic import ByteSize


def toml_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case ByteSize():
            return toml_value(_size(int(value)))
        case int() | float():
            return repr(value)
        case StrEnum():
            return toml_value(value.value)
        case str() | Path() | IPv4Network() | IPv6Network():
            return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list() | tuple():
            return "[" + ", ".join(toml_value(item) for item in value) + "]"
        case dict():
            return (
                "{ "
                + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
                + " }"
            )
        case _:
            raise AssertionError(f"no configuration holds a {type(value).__name__}")


def toml_key(name: str) -> str:
    # "Bare keys may only contain ASCII letters, ASCII digits, underscores, and dashes".
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_value(name)


def _size(count: int) -> str:
    for unit, weight in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count and count % weight == 0:
            return f"{count // weight}{unit}"
    return f"{count}B"
