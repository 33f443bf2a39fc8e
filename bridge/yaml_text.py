"""A JSON value as YAML that people read. Texts are quoted as in JSON, of which YAML is a superset, but for
those that can be mistaken for nothing else and those of several lines. They hold nothing unprintable."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

# What needs no quotes in any version of YAML, and is no number, truth or nothing in any of them.
_PLAIN = re.compile(r"[A-Za-z_/$][A-Za-z0-9_/$.-]*(?: [A-Za-z0-9_/$.(]+)*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def yaml_text(value: Any) -> str:
    return "".join(f"{line.rstrip()}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key))}:", item, "  ")
    elif isinstance(value, list) and value:
        for item in value:
            yield from _entry("-", item, "  ")
    else:
        yield _scalar(value)


def _entry(begin: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, dict | list) and item:
        if begin == "-":
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from (f"{indent}{line}" for line in rest)
        else:
            yield begin
            yield from (f"{indent}{line}" for line in _lines(item))
    elif isinstance(item, str) and "\n" in item and _is_block(item):
        yield f"{begin} |"
        yield from (f"{indent}{line}" for line in item.removesuffix("\n").split("\n"))
    else:
        yield f"{begin} {_scalar(item)}"


def _is_block(text: str) -> bool:
    """Whether it stays what it is in lines of its own."""
    return (
        text.endswith("\n")
        and not text.endswith("\n\n")
        and not text.startswith((" ", "\n"))
        and all(line == line.rstrip() and (not line or line.isprintable()) for line in text.split("\n"))
    )


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return orjson.dumps(value).decode()
