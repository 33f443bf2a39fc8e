"""Messages about calls in the rooms of offices. Each call is the root of a thread that contains its result.

They are `m.room.message` events, so every client shows them and Element displays the threads; clients would
not show events of a custom type. Keys of the protocol in the content hold the same data for programs. The
mark of Palaver's own messages keeps nodes from treating them as requests.

Replies to people who call tools with `!call` are here as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import orjson

from bridge.connectors.offices.calls.chat_command import HELP, PREFIX, USAGE, USAGE_JSON, InvalidCommand
from bridge.connectors.offices.calls.direct_call import MAX_SHOWN_LENGTH, list_names
from bridge.connectors.offices.protocol.tools import Outcome, ToolResult, outcome_text, read_result
from bridge.connectors.offices.rooms.masking import MaskedValue
from bridge.people.texts.text import MARK, Kind, Text, beginning, clean, concatenate, content_of, format_name, one_line
from federation.events import EventId
from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.matrix.message_content import (
    Content,
    Html,
    code,
    code_block,
    details,
    html_list,
    in_thread,
    link,
    paragraph,
    reference,
    text,
)
from federation.media.media import MediaInfo

CALL: Final = "io.a2c.tool.call"
RESULT: Final = "io.a2c.tool.result"
DIGEST: Final = "io.a2c.tool.digest"
"""Keys of the machine-readable parts."""

MAX_PARAMS_LENGTH: Final = 300
"""Characters of the parameters in plain text, where they cannot be collapsed."""
MAX_DETAILS_LENGTH: Final = 3_000
MAX_DETAILS_LINES: Final = 60
MAX_IN_DIGEST: Final = 50

# Bytes of the relation, the mark and the JSON syntax, besides the text and the machine-readable part.
_OVERHEAD: Final = 2_048
# Bytes of a digest besides its lines.
_DIGEST_HEAD: Final = 512


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`agent` and `computer` are names of members. They, `tool_name` and `req_id` are valid names
    (`events.is_name`). `call_id` is made by this node. The type of `params` makes sure that they are masked.
    For a direct call (`is_direct`), `agent` is the requester, who is no member."""

    call_id: str
    req_id: str
    agent: str
    computer: str
    tool_name: str
    params: MaskedValue
    at_ms: int
    is_direct: bool = False


@dataclass(frozen=True, slots=True)
class DigestEntry:
    call: ToolCall
    outcome: Outcome
    took_ms: int | None


# -- one call --


def call_content(call: ToolCall) -> Content:
    """The root message of the thread."""
    machine = {**_machine_readable(call), "params": call.params.value, "hidden": list(call.params.hidden)}
    message = Text.of("🔧 ") + call_summary(call, "calls") + _params_text(call.params)
    return _message(message, CALL, machine)


def result_content(
    call: ToolCall,
    result: ToolResult,
    *,
    call_event: EventId,
    at_ms: int,
    took_ms: int | None,
    media: Sequence[MediaInfo] = (),
) -> Content:
    """A message in the thread of the call. `media` are the uploaded files of the result."""
    machine: dict[str, Any] = {
        **_machine_readable(call),
        "at_ms": at_ms,
        "outcome": result.outcome.value,
        **_took(took_ms),
        "sizes": {"text": result.text_bytes, "files": sum(info.size for info in media)},
    }
    if media:
        machine["media"] = [_media(info) for info in media]
    head = outcome_text(result.outcome, took_ms)
    message = Text(head, paragraph(head))
    if result.text.plain:
        message += Text(f"\n{result.text.plain}", result.text.html)
    # An event can have only one relation, which is the thread; the reference has a key of its own.
    return in_thread(call_event, _message(message, RESULT, reference(call_event, machine)))


def file_content(info: MediaInfo, name: str, *, call_event: EventId) -> Content:
    """A file of a result, as people see it."""
    content = {
        **text(name),
        "msgtype": "m.file",
        "filename": name,
        "url": str(info.mxc),
        "info": {"size": info.size, "mimetype": info.content_type},
        MARK: {"kind": Kind.NOTICE.value},
    }
    return in_thread(call_event, content)


def note_content(note: Text, *, call_event: EventId, mentions: Iterable[str] = ()) -> Content:
    """Any other message in the thread of a call."""
    return in_thread(call_event, content_of(note, Kind.NOTICE, mentions=mentions))


def call_summary(call: ToolCall, verb: str) -> Text:
    """For example: boss calls add on hands."""
    agent, tool, computer = (format_name(name) for name in (call.agent, call.tool_name, call.computer))
    return agent + Text.of(f" {verb} ") + tool + Text.of(" on ") + computer


# -- many calls --


def digest_content(entries: Sequence[DigestEntry]) -> Content:
    """One message for many calls of a busy office. Calls that do not fit are only counted."""
    lines: list[Text] = []
    machine: list[Mapping[str, Any]] = []
    left = MAX_OWN_CONTENT_BYTES - _OVERHEAD - _DIGEST_HEAD
    for entry in entries[:MAX_IN_DIGEST]:
        line = call_summary(entry.call, "→") + Text.of(f": {outcome_text(entry.outcome, entry.took_ms)}")
        part = {**_machine_readable(entry.call), "outcome": entry.outcome.value, **_took(entry.took_ms)}
        left -= sum(map(_size, (line.plain, str(line.html), part))) + len("\\n<li></li>,")
        if left < 0:
            break
        lines.append(line)
        machine.append(part)
    more = len(entries) - len(lines)
    head = f"🔧 {len(entries)} calls"
    last = [Text.of(f"and {more} more")] if more else []
    message = Text(
        "\n".join([head, *(line.plain for line in [*lines, *last])]),
        concatenate([paragraph(head), html_list(line.html for line in [*lines, *last])]),
    )
    return _message(message, DIGEST, {"calls": machine, "more": more})


# -- internals --


def _machine_readable(call: ToolCall) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "req_id": call.req_id,
        "agent": call.agent,
        "computer": call.computer,
        "tool_name": call.tool_name,
        "at_ms": call.at_ms,
        **({"direct": True} if call.is_direct else {}),
    }


def _took(took_ms: int | None) -> dict[str, int]:
    """Omitted if the duration is not known."""
    return {} if took_ms is None else {"took_ms": took_ms}


def _media(info: MediaInfo) -> dict[str, Any]:
    return {"mxc": str(info.mxc), "sha256": info.sha256, "size": info.size, "content_type": info.content_type}


def _params_text(params: MaskedValue) -> Text:
    """Collapsed in HTML, since most readers skip the parameters."""
    if params.value in ({}, [], None):
        return Text.of("")
    pretty = clean(_json(params.value, orjson.OPT_INDENT_2)[: 2 * MAX_DETAILS_LENGTH])
    shown = beginning(pretty, MAX_DETAILS_LINES, MAX_DETAILS_LENGTH)
    end = "" if len(shown) == len(pretty) else "\n[…]"
    hidden = f" ({len(params.hidden)} hidden)" if params.hidden else ""
    collapsed: Html = details(f"Parameters{hidden}", code_block(shown + end, "json"))
    return Text(f"\n{one_line(_json(params.value), MAX_PARAMS_LENGTH)}", collapsed)


def _message(message: Text, key: str, machine: Mapping[str, Any]) -> Content:
    max_bytes = MAX_OWN_CONTENT_BYTES - _size(machine) - _OVERHEAD
    return {**content_of(message, Kind.NOTICE, max_bytes=max_bytes), key: dict(machine)}


def _json(value: object, option: int = 0) -> str:
    return orjson.dumps(value, option=option).decode()


def _size(value: object) -> int:
    return len(orjson.dumps(value))


MAX_COMPUTERS: Final = 20
MAX_TOOLS: Final = 40
MAX_RESULT_LENGTH: Final = 500
MAX_RESULT_LINES: Final = 8

INTERRUPTED: Final = (
    "The call was interrupted before it was sent to the Computer, so no tool was called. Send it again if it"
    " is still needed."
)
NOT_MADE: Final = "The call could not be made, because the database is unavailable. Send it again later."
TOO_OLD: Final = "This message arrived too late, so no tool was called. Send it again if the call is still needed."


def invalid_command_text(command: InvalidCommand, computers: Sequence[str]) -> Text:
    """The mistake, the correct form, and the Computers of the office."""
    available = list_names(computers) if computers else "There is no Computer at the moment."
    plain = f"{command.reason} Write it like this: {USAGE} – or {USAGE_JSON}. {available}"
    html = (
        paragraph(command.reason)
        + paragraph(Html("Write it like this: ") + code(USAGE) + " – or " + code(USAGE_JSON) + ".")
        + paragraph(f"{available} {PREFIX} {HELP} lists their tools.")
    )
    return Text(plain, html)


def help_text(computers: Mapping[str, Sequence[str] | None]) -> Text:
    """The Computers and their tools; None for a Computer whose tools are not known."""
    if not computers:
        head = "There is no Computer in this office at the moment, so there are no tools to call."
        return Text(head, Html(head))
    lines = [_computer_line(name, computers[name]) for name in sorted(computers)[:MAX_COMPUTERS]]
    if len(computers) > MAX_COMPUTERS:
        lines.append(Text.of(f"and {len(computers) - MAX_COMPUTERS} more"))
    time = f"{PREFIX} --timeout 300 …"
    how = Text.of("To call a tool: ") + _code(USAGE) + Text.of(", or ") + _code(USAGE_JSON)
    how += Text.of("; the default timeout is one minute, ") + _code(time) + Text.of(" sets another one.")
    head = "What you can call:"
    return Text(
        "\n".join([head, *(f"- {line.plain}" for line in lines), how.plain]),
        concatenate([paragraph(head), html_list(line.html for line in lines), paragraph(how.html)]),
    )


def answer_text(
    computer: str, tool_name: str, answer: Mapping[str, Any], took_ms: int | None, thread: str | None
) -> Text:
    """The outcome, the beginning of the result, and a link to the call's thread. `thread` is that link, if
    there is one."""
    result = read_result(answer, tool_name)
    head = (
        format_name(tool_name)
        + Text.of(" on ")
        + format_name(computer)
        + Text.of(f": {outcome_text(result.outcome, took_ms)}")
    )
    shown = beginning(result.text.plain, MAX_RESULT_LINES, MAX_RESULT_LENGTH).rstrip()
    message = head
    if shown:
        message = Text(f"{head.plain}\n{shown}", paragraph(head.html) + paragraph(shown))
    if thread is None:
        return message
    label = "The call and its whole result"
    return message + Text(f"\n{label}: {thread}", paragraph(link(thread, label)))


def message_link(room_id: str, event_id: str) -> str:
    """A link with which clients open a message."""
    return f"https://matrix.to/#/{quote(room_id, safe='')}/{quote(event_id, safe='')}"


def _computer_line(name: str, tools: Sequence[str] | None) -> Text:
    if tools is None:
        return format_name(name) + Text.of(": tools not known")
    if not tools:
        return format_name(name) + Text.of(": no tools")
    line = format_name(name) + Text.of(": ")
    for at, tool in enumerate(tools[:MAX_TOOLS]):
        line = line + Text.of(", " if at else "") + _code(one_line(tool, MAX_SHOWN_LENGTH))
    more = f" and {len(tools) - MAX_TOOLS} more" if len(tools) > MAX_TOOLS else ""
    return line + Text.of(more)


def _code(text: str) -> Text:
    return Text(text, code(text))
