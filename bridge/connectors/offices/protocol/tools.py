"""The tools of a Computer, as the state `io.a2c.office.tools` has them.

What a call came to, as people get to see it: the words of the tool, and files for what is no text or too
much of it.

The answer is the Computer's, or the node's own in its place: a result of MCP, or a flat error. It may be
anything.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

import orjson

from bridge.connectors.offices.protocol.errors import FORBIDDEN, NOT_FOUND, TIMEOUT
from bridge.connectors.offices.rooms.masking import masked
from bridge.people.texts.agent_output import File, agent_words, file_name
from bridge.people.texts.text import Text, one_line
from bridge.text.times import duration
from federation.matrix.canonical_json import NotCanonical, encode
from federation.media.media_type import media_type

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


MOST_FILES: Final = 10
MOST_PARTS: Final = 1_000
LONGEST_URI: Final = 1_000
SHORT_MS: Final = 10_000
"""Below it tenths of a second are told."""

_SUFFIX: Final = re.compile(r"(?:image|audio|video)/([a-z0-9]{2,5})", re.ASCII)
_BINARY: Final = frozenset({"image", "audio"})


class Outcome(StrEnum):
    DONE = "done"
    ERROR = "error"
    NOT_FOUND = "not_found"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    """Its node has ended before there was an answer."""


_OF_CODE: Final[Mapping[int, Outcome]] = {
    NOT_FOUND: Outcome.NOT_FOUND,
    TIMEOUT: Outcome.TIMED_OUT,
    FORBIDDEN: Outcome.REFUSED,
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`files` are to be uploaded; the text says of each that it is there. `text_bytes`: of all that the tool
    has said in words."""

    outcome: Outcome
    text: Text
    files: tuple[File, ...] = ()
    text_bytes: int = 0


def read_result(answer: object, name: str) -> ToolResult:
    """`name` is what files are called: that of the tool."""
    said: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    outcome = _outcome(said)
    parts = _parts(said, name)
    output = "\n".join(parts.lines)
    words = agent_words(output, name)
    files = parts.files if words.file is None else [words.file, *parts.files]
    return ToolResult(outcome, words.text, tuple(files), len(output.encode("utf-8", "replace")))


def outcome_of(answer: object) -> Outcome:
    """Without reading what was said."""
    return _outcome(answer if isinstance(answer, dict) else {})


def whole_text(answer: object) -> tuple[Outcome, str]:
    """All that a tool has said in words, for programs and terminals; of what is no text, that it is there."""
    said: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    return _outcome(said), "\n".join(_parts(said, None).lines)


def outcome_words(outcome: Outcome, took_ms: int | None) -> str:
    """One line of it. `took_ms` is None where nobody knows."""
    took = duration(None) if took_ms is None else took_text(took_ms)
    match outcome:
        case Outcome.DONE:
            return f"✅ {took}"
        case Outcome.ERROR:
            return f"❌ It has failed after {took}."
        case Outcome.NOT_FOUND:
            return "❌ The Computer is not there."
        case Outcome.TIMED_OUT:
            return f"❌ No answer in {took}."
        case Outcome.CANCELLED:
            return f"❌ Taken back after {took}."
        case Outcome.REFUSED:
            return "❌ Refused."
        case Outcome.INTERRUPTED:
            return "❌ Interrupted."


def took_text(milliseconds: int) -> str:
    if not 0 <= milliseconds < SHORT_MS:
        return duration(milliseconds)
    tenths = min((milliseconds + 50) // 100, SHORT_MS // 100 - 1)
    return f"{tenths // 10}.{tenths % 10} s"


def _outcome(said: Mapping[str, Any]) -> Outcome:
    """Marks within `meta` first: with them a result is always one that failed, too."""
    meta = _meta(said)
    if meta.get("a2c_timeout") is True:
        return Outcome.TIMED_OUT
    if meta.get("a2c_cancelled") is True:
        return Outcome.CANCELLED
    if isinstance(meta.get("a2c_approval"), str):
        return Outcome.REFUSED
    if meta.get("a2c_interrupted") is True:
        return Outcome.INTERRUPTED
    code = said.get("code")
    if type(code) is int and "content" not in said:
        return _OF_CODE.get(code, Outcome.ERROR)
    # What is no result at all has failed.
    is_result = isinstance(said.get("content"), list) or "structuredContent" in said
    return Outcome.DONE if is_result and said.get("isError") is not True else Outcome.ERROR


def _parts(said: Mapping[str, Any], name: str | None) -> "_Parts":
    parts = _Parts(name)
    content = said.get("content")
    if isinstance(content, list):
        for item in content[:MOST_PARTS]:
            parts.add(item)
        if len(content) > MOST_PARTS:
            parts.note(f"{len(content) - MOST_PARTS} more parts are not shown.")
    elif isinstance(said.get("message"), str):
        parts.lines.append(said["message"])
    if not parts.lines and said.get("structuredContent") is not None:
        parts.lines.append(_structured(said["structuredContent"]))
    return parts


class _Parts:
    """Of a result, in its order. "A CallToolResult by field name: content items have `type`, `annotations`,
    `meta` and their own fields." `name` is what files are called; None: there are none."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self.lines: list[str] = []
        self.files: list[File] = []

    def note(self, sentence: str) -> None:
        self.lines.append(f"({sentence})")

    def add(self, item: object) -> None:
        part: Mapping[str, Any] = item if isinstance(item, dict) else {}
        kind = part.get("type")
        if kind == "text" and isinstance(part.get("text"), str):
            self.lines.append(part["text"])
        elif isinstance(kind, str) and kind in _BINARY:
            self._binary(part, part.get("data"), {})
        elif kind == "resource" and isinstance(part.get("resource"), dict):
            self._resource(part, part["resource"])
        elif kind == "resource_link":
            self.lines.append(": ".join(filter(None, (_line(part, "name"), _line(part, "uri")))))
        else:
            self.note("A part of another kind is not shown.")

    def _resource(self, part: Mapping[str, Any], resource: Mapping[str, Any]) -> None:
        uri = _line(resource, "uri")
        if isinstance(resource.get("text"), str):
            self.lines += [*([f"{uri}:"] if uri else []), resource["text"]]
        else:
            self._binary(part, resource.get("blob"), resource)

    def _binary(self, part: Mapping[str, Any], data: object, resource: Mapping[str, Any]) -> None:
        declared = part.get("mimeType") or resource.get("mimeType")
        content_type = media_type(declared if isinstance(declared, str) else None)
        # "A binary content item above the inline budget has `data` (or `resource.blob`) emptied".
        meta = {**_meta(resource), **_meta(part)}
        if not data and isinstance(meta.get("a2c_blob_handle"), str):
            size = meta.get("a2c_total_size")
            bytes_ = f", {size} bytes," if type(size) is int and 0 <= size < 2**53 else ""
            self.note(f"{content_type}{bytes_} that stays at the Computer.")
            return
        content = _decoded(data)
        if content is None:
            self.note(f"{content_type} that cannot be read.")
        elif self._name is None:
            self.note(f"{content_type}, {len(content)} bytes.")
        elif len(self.files) >= MOST_FILES:
            self.note(f"{content_type}, {len(content)} bytes, left out.")
        else:
            file = File(self._file_name(self._name, content_type), content, content_type)
            self.files.append(file)
            self.note(f"{content_type}, {len(content)} bytes, in the file {file.name}.")

    def _file_name(self, name: str, content_type: str) -> str:
        """Never a path, never hidden."""
        stem = file_name(name).removesuffix(".txt")
        found = _SUFFIX.fullmatch(content_type)
        return f"{stem}-{len(self.files) + 1}.{found[1] if found is not None else 'bin'}"


def _structured(value: object) -> str:
    """Bounded and without secrets, as parameters are: it is not meant for reading."""
    shown = orjson.dumps(masked(value).value, option=orjson.OPT_INDENT_2).decode()
    return f"```json\n{shown}\n```"


def _meta(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """ "The top-level key is `meta`, not `_meta`"; within items it is either."""
    found: dict[str, Any] = {}
    for name in ("_meta", "meta"):
        one = said.get(name)
        if isinstance(one, dict):
            found.update(one)
    return found


def _line(said: Mapping[str, Any], name: str) -> str:
    text = said.get(name)
    return one_line(text, LONGEST_URI) if isinstance(text, str) else ""


def _decoded(data: object) -> bytes | None:
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str) or not data:
        return None
    try:
        return b64decode(data, validate=True)
    except ValueError:  # binascii.Error is one, and so is what is no ASCII
        return None
