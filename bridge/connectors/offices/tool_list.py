"""The tools of a Computer, as the state `io.a2c.office.tools` has them."""

from hashlib import sha256
from typing import Any, Final

import orjson

from bridge.people.cleaning import one_line
from federation.canonical_json import NotCanonical, encode

LONGEST_NAME: Final = 128
LONGEST_DESCRIPTION: Final = 200
MOST_BYTES: Final = 32 * 1024
"""Of the whole content. An event has twice that, and signatures of others are part of it."""

# For the hash, the count and the mark that tools are missing, with all that JSON puts around them.
_AROUND: Final = 160


def tools_content(answer: object) -> dict[str, Any] | None:
    """Of what a Computer has answered to `get_tools`. None for what is no tool list, an error among it.

    The hash is of the whole list, with the schemas that are not told here: by it others see whether anything
    has changed.
    """
    tools = answer.get("tools") if isinstance(answer, dict) else None
    if not isinstance(tools, list) or not all(map(_is_tool, tools)):
        return None
    try:
        # Schemas hold fractions, which canonical JSON has not: they are taken as they are written.
        written = encode(tools, strict=False)
    except NotCanonical:
        return None
    told: list[dict[str, str]] = []
    left = MOST_BYTES - _AROUND
    for tool in tools:
        entry = _entry(tool)
        left -= len(orjson.dumps(entry)) + 1
        if left < 0:
            break
        told.append(entry)
    cut = {"cut": True} if len(told) < len(tools) else {}
    return {"hash": sha256(written).hexdigest(), "count": len(tools), "tools": told, **cut}


def is_tools_content(said: object) -> bool:
    """Whether it is what `tools_content` gives."""
    if not isinstance(said, dict) or not isinstance(said.get("hash"), str):
        return False
    tools = said.get("tools")
    return isinstance(tools, list) and all(map(_is_tool, tools))


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and bool(tool["name"])


def _entry(tool: dict[str, Any]) -> dict[str, str]:
    said = tool.get("description")
    description = one_line(said, LONGEST_DESCRIPTION) if isinstance(said, str) else ""
    return {"name": one_line(tool["name"], LONGEST_NAME), "description": description}
