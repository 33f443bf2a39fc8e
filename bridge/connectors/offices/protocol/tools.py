"""Tool lists and tool results, in the form in which rooms and people receive them.

`tools_content` builds the content of the state event `io.a2c.office.tools`. `read_result` turns a Computer's
answer into text and files: what is not text, or too long, becomes a file. An answer is an MCP result or a
flat error, from the Computer or from the node in its place; it may have any form.
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
from bridge.people.texts.agent_output import OutputFile, file_name, format_output
from bridge.people.texts.text import Text, one_line
from bridge.text.times import duration
from federation.matrix.canonical_json import NotCanonical, encode
from federation.media.media_type import media_type

MAX_NAME_LENGTH: Final = 128
MAX_DESCRIPTION_LENGTH: Final = 200
MAX_CONTENT_BYTES: Final = 32 * 1024
"""An event may have twice as much, but the signatures of other servers count as well."""

# Bytes of the hash, the count and the mark for a shortened list, with their JSON syntax.
_OVERHEAD: Final = 160


def tools_content(answer: object) -> dict[str, Any] | None:
    """The content for a Computer's answer to `get_tools`; None if the answer is no tool list, such as an
    error.

    The hash covers the whole list with its schemas, which the content omits: it shows whether anything
    changed.
    """
    tools = answer.get("tools") if isinstance(answer, dict) else None
    if not isinstance(tools, list) or not all(map(_is_tool, tools)):
        return None
    try:
        # Canonical JSON has no fractions, but schemas contain them, so the encoding is not strict.
        written = encode(tools, strict=False)
    except NotCanonical:
        return None
    shown: list[dict[str, str]] = []
    left = MAX_CONTENT_BYTES - _OVERHEAD
    for tool in tools:
        entry = _entry(tool)
        left -= len(orjson.dumps(entry)) + 1
        if left < 0:
            break
        shown.append(entry)
    cut = {"cut": True} if len(shown) < len(tools) else {}
    return {"hash": sha256(written).hexdigest(), "count": len(tools), "tools": shown, **cut}


def is_tools_content(content: object) -> bool:
    """Whether content has the form that `tools_content` returns."""
    if not isinstance(content, dict) or not isinstance(content.get("hash"), str):
        return False
    tools = content.get("tools")
    return isinstance(tools, list) and all(map(_is_tool, tools))


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and bool(tool["name"])


def _entry(tool: dict[str, Any]) -> dict[str, str]:
    text = tool.get("description")
    description = one_line(text, MAX_DESCRIPTION_LENGTH) if isinstance(text, str) else ""
    return {"name": one_line(tool["name"], MAX_NAME_LENGTH), "description": description}


MAX_FILES: Final = 10
MAX_PARTS: Final = 1_000
MAX_URI_LENGTH: Final = 1_000
TENTHS_BELOW_MS: Final = 10_000
"""Shorter durations are shown with tenths of a second."""

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
    """The node stopped before there was an answer."""


_OUTCOMES: Final[Mapping[int, Outcome]] = {
    NOT_FOUND: Outcome.NOT_FOUND,
    TIMEOUT: Outcome.TIMED_OUT,
    FORBIDDEN: Outcome.REFUSED,
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`files` are to be uploaded; `text` mentions each of them. `text_bytes` is the size of the tool's whole
    text output."""

    outcome: Outcome
    text: Text
    files: tuple[OutputFile, ...] = ()
    text_bytes: int = 0


def read_result(answer: object, name: str) -> ToolResult:
    """`name` is the name of the tool; files are named after it."""
    result: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    outcome = _outcome(result)
    parts = _parts(result, name)
    output = "\n".join(parts.lines)
    words = format_output(output, name)
    files = parts.files if words.file is None else [words.file, *parts.files]
    return ToolResult(outcome, words.text, tuple(files), len(output.encode("utf-8", "replace")))


def outcome_of(answer: object) -> Outcome:
    """The outcome alone, without reading the parts of the answer."""
    return _outcome(answer if isinstance(answer, dict) else {})


def full_text(answer: object) -> tuple[Outcome, str]:
    """The outcome and the tool's whole text, for programs and terminals. Parts that are not text are
    mentioned."""
    result: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    return _outcome(result), "\n".join(_parts(result, None).lines)


def outcome_text(outcome: Outcome, took_ms: int | None) -> str:
    """One line. `took_ms` is None if the duration is not known."""
    took = duration(None) if took_ms is None else took_text(took_ms)
    match outcome:
        case Outcome.DONE:
            return f"✅ {took}"
        case Outcome.ERROR:
            return f"❌ Failed after {took}."
        case Outcome.NOT_FOUND:
            return "❌ The Computer is not connected."
        case Outcome.TIMED_OUT:
            return f"❌ No answer within {took}."
        case Outcome.CANCELLED:
            return f"❌ Cancelled after {took}."
        case Outcome.REFUSED:
            return "❌ Refused."
        case Outcome.INTERRUPTED:
            return "❌ Interrupted."


def took_text(milliseconds: int) -> str:
    if not 0 <= milliseconds < TENTHS_BELOW_MS:
        return duration(milliseconds)
    tenths = min((milliseconds + 50) // 100, TENTHS_BELOW_MS // 100 - 1)
    return f"{tenths // 10}.{tenths % 10} s"


def _outcome(result: Mapping[str, Any]) -> Outcome:
    """Marks in `meta` take precedence: a result that carries one is also marked as failed."""
    meta = _meta(result)
    if meta.get("a2c_timeout") is True:
        return Outcome.TIMED_OUT
    if meta.get("a2c_cancelled") is True:
        return Outcome.CANCELLED
    if isinstance(meta.get("a2c_approval"), str):
        return Outcome.REFUSED
    if meta.get("a2c_interrupted") is True:
        return Outcome.INTERRUPTED
    code = result.get("code")
    if type(code) is int and "content" not in result:
        return _OUTCOMES.get(code, Outcome.ERROR)
    # An answer that is no tool result counts as failed.
    is_result = isinstance(result.get("content"), list) or "structuredContent" in result
    return Outcome.DONE if is_result and result.get("isError") is not True else Outcome.ERROR


def _parts(result: Mapping[str, Any], name: str | None) -> "_Parts":
    parts = _Parts(name)
    content = result.get("content")
    if isinstance(content, list):
        for item in content[:MAX_PARTS]:
            parts.add(item)
        if len(content) > MAX_PARTS:
            parts.note(f"{len(content) - MAX_PARTS} more parts are not shown.")
    elif isinstance(result.get("message"), str):
        parts.lines.append(result["message"])
    if not parts.lines and result.get("structuredContent") is not None:
        parts.lines.append(_structured(result["structuredContent"]))
    return parts


class _Parts:
    """The parts of a result, in order. "A CallToolResult by field name: content items have `type`,
    `annotations`, `meta` and their own fields." Files are named after `name`; without it none are made."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self.lines: list[str] = []
        self.files: list[OutputFile] = []

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
            self.note("A part of an unknown type is not shown.")

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
            self.note(f"{content_type}{bytes_} stored at the Computer.")
            return
        content = _decode(data)
        if content is None:
            self.note(f"{content_type}, not readable.")
        elif self._name is None:
            self.note(f"{content_type}, {len(content)} bytes.")
        elif len(self.files) >= MAX_FILES:
            self.note(f"{content_type}, {len(content)} bytes, omitted.")
        else:
            file = OutputFile(self._file_name(self._name, content_type), content, content_type)
            self.files.append(file)
            self.note(f"{content_type}, {len(content)} bytes, in the file {file.name}.")

    def _file_name(self, name: str, content_type: str) -> str:
        """Never a path and never a hidden file."""
        stem = file_name(name).removesuffix(".txt")
        found = _SUFFIX.fullmatch(content_type)
        return f"{stem}-{len(self.files) + 1}.{found[1] if found is not None else 'bin'}"


def _structured(value: object) -> str:
    """Limited in size and with secrets masked, as parameters are: structured content is not written for
    people."""
    shown = orjson.dumps(masked(value).value, option=orjson.OPT_INDENT_2).decode()
    return f"```json\n{shown}\n```"


def _meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """ "The top-level key is `meta`, not `_meta`"; items may use either."""
    found: dict[str, Any] = {}
    for name in ("_meta", "meta"):
        one = result.get(name)
        if isinstance(one, dict):
            found.update(one)
    return found


def _line(part: Mapping[str, Any], name: str) -> str:
    text = part.get(name)
    return one_line(text, MAX_URI_LENGTH) if isinstance(text, str) else ""


def _decode(data: object) -> bytes | None:
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str) or not data:
        return None
    try:
        return b64decode(data, validate=True)
    except ValueError:  # binascii.Error is a ValueError; non-ASCII text raises ValueError too
        return None
