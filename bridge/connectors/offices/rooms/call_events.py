"""What a room is told of calls: each is the root of a thread, in which stands what it came to.

They are messages, so that any client shows them and Element makes threads of them; events of a type of their
own would be seen by nobody. For programs the same stands in them under the protocol's keys. They bear the
mark of what a Palaver says: nobody takes them for work.

What a person is told who has called a tool in the room of an office, or who asks what there is to be
called.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import orjson

from bridge.connectors.offices.calls.chat_command import HELP, PREFIX, USAGE, USAGE_JSON, NoOrder
from bridge.connectors.offices.calls.direct_call import LONGEST_SHOWN, named
from bridge.connectors.offices.protocol.tools import Outcome, ToolResult, outcome_words, read_result
from bridge.connectors.offices.rooms.masking import Masked
from bridge.people.texts.text import (
    MARK,
    Kind,
    Text,
    beginning,
    cleaned,
    content_of,
    joined,
    one_line,
    shown_name,
)
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
"""The keys under which the parts for programs stand."""

LONGEST_PARAMS: Final = 300
"""Characters of the parameters where they cannot be unfolded."""
LONGEST_UNFOLDED: Final = 3_000
MOST_LINES: Final = 60
MOST_IN_DIGEST: Final = 50

# Beside the words and the part for programs: the relation, the mark, and what JSON puts around them.
_AROUND: Final = 2_048
# What a digest says beside its lines.
_HEAD: Final = 512


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`agent` and `computer` are the names of members; they, `tool_name` and `req_id` are names as
    `shape.is_name` has them. `call_id` is ours. The parameters cannot be given but masked. `is_direct`: no
    member has made it, and `agent` is whoever did."""

    call_id: str
    req_id: str
    agent: str
    computer: str
    tool_name: str
    params: Masked
    at_ms: int
    is_direct: bool = False


@dataclass(frozen=True, slots=True)
class DigestEntry:
    call: ToolCall
    outcome: Outcome
    took_ms: int | None


# -- one call --


def call_content(call: ToolCall) -> Content:
    """The root of the thread."""
    machine = {**_machine(call), "params": call.params.value, "hidden": list(call.params.hidden)}
    said = Text.of("🔧 ") + call_words(call, "calls") + _params_text(call.params)
    return _message(said, CALL, machine)


def result_content(
    call: ToolCall,
    result: ToolResult,
    *,
    call_event: EventId,
    at_ms: int,
    took_ms: int | None,
    media: Sequence[MediaInfo] = (),
) -> Content:
    """In the thread of the call. `media` are its files, uploaded."""
    machine: dict[str, Any] = {
        **_machine(call),
        "at_ms": at_ms,
        "outcome": result.outcome.value,
        **_took(took_ms),
        "sizes": {"text": result.text_bytes, "files": sum(info.size for info in media)},
    }
    if media:
        machine["media"] = [_media(info) for info in media]
    head = outcome_words(result.outcome, took_ms)
    said = Text(head, paragraph(head))
    if result.text.plain:
        said += Text(f"\n{result.text.plain}", result.text.html)
    # The one relation that an event can have is that to its thread: this one has a place of its own.
    return in_thread(call_event, _message(said, RESULT, reference(call_event, machine)))


def file_content(info: MediaInfo, name: str, *, call_event: EventId) -> Content:
    """A file of a result, for people."""
    content = {
        **text(name),
        "msgtype": "m.file",
        "filename": name,
        "url": str(info.mxc),
        "info": {"size": info.size, "mimetype": info.content_type},
        MARK: {"kind": Kind.WORD.value},
    }
    return in_thread(call_event, content)


def note_content(said: Text, *, call_event: EventId, mentions: Iterable[str] = ()) -> Content:
    """What else there is to say of a call, in its thread."""
    return in_thread(call_event, content_of(said, Kind.WORD, mentions=mentions))


def call_words(call: ToolCall, verb: str) -> Text:
    """boss calls add on hands."""
    who, what, whom = (shown_name(name) for name in (call.agent, call.tool_name, call.computer))
    return who + Text.of(f" {verb} ") + what + Text.of(" on ") + whom


# -- many calls --


def digest_content(entries: Sequence[DigestEntry]) -> Content:
    """Of an office in which more is called than people read one by one. What has no room is counted."""
    lines: list[Text] = []
    machine: list[Mapping[str, Any]] = []
    left = MAX_OWN_CONTENT_BYTES - _AROUND - _HEAD
    for entry in entries[:MOST_IN_DIGEST]:
        line = call_words(entry.call, "→") + Text.of(f": {outcome_words(entry.outcome, entry.took_ms)}")
        part = {**_machine(entry.call), "outcome": entry.outcome.value, **_took(entry.took_ms)}
        left -= sum(map(_size, (line.plain, str(line.html), part))) + len("\\n<li></li>,")
        if left < 0:
            break
        lines.append(line)
        machine.append(part)
    more = len(entries) - len(lines)
    head = f"🔧 {len(entries)} calls"
    last = [Text.of(f"and {more} more")] if more else []
    said = Text(
        "\n".join([head, *(line.plain for line in [*lines, *last])]),
        joined([paragraph(head), html_list(line.html for line in [*lines, *last])]),
    )
    return _message(said, DIGEST, {"calls": machine, "more": more})


# -- inside --


def _machine(call: ToolCall) -> dict[str, Any]:
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
    """Nothing where nobody knows."""
    return {} if took_ms is None else {"took_ms": took_ms}


def _media(info: MediaInfo) -> dict[str, Any]:
    return {
        "mxc": str(info.mxc),
        "sha256": info.sha256,
        "size": info.size,
        "content_type": info.content_type,
    }


def _params_text(params: Masked) -> Text:
    """Folded, since most calls are not looked into."""
    if params.value in ({}, [], None):
        return Text.of("")
    pretty = cleaned(_json(params.value, orjson.OPT_INDENT_2)[: 2 * LONGEST_UNFOLDED])
    shown = beginning(pretty, MOST_LINES, LONGEST_UNFOLDED)
    end = "" if len(shown) == len(pretty) else "\n[…]"
    hidden = f" ({len(params.hidden)} hidden)" if params.hidden else ""
    folded: Html = details(f"Parameters{hidden}", code_block(shown + end, "json"))
    return Text(f"\n{one_line(_json(params.value), LONGEST_PARAMS)}", folded)


def _message(said: Text, key: str, machine: Mapping[str, Any]) -> Content:
    most_bytes = MAX_OWN_CONTENT_BYTES - _size(machine) - _AROUND
    return {**content_of(said, Kind.WORD, most_bytes=most_bytes), key: dict(machine)}


def _json(value: object, option: int = 0) -> str:
    return orjson.dumps(value, option=option).decode()


def _size(value: object) -> int:
    return len(orjson.dumps(value))


MOST_COMPUTERS: Final = 20
MOST_TOOLS: Final = 40
LONGEST_RESULT: Final = 500
RESULT_LINES: Final = 8

INTERRUPTED: Final = (
    "It was interrupted before the Computer was asked, and nothing was called. Say it again if it is still"
    " wanted."
)
NOT_MADE: Final = "The call could not be made now. Say it again in a while."
TOO_OLD: Final = "This was said long before I heard it. Say it again if it is still wanted."


def mistake_text(mistake: NoOrder, computers: Sequence[str]) -> Text:
    """What is wrong, how it is said, and who is there."""
    there = named(computers) if computers else "There is no Computer at the moment."
    plain = f"{mistake.sentence} Say it like this: {USAGE} – or {USAGE_JSON}. {there}"
    html = (
        paragraph(mistake.sentence)
        + paragraph(Html("Say it like this: ") + code(USAGE) + " – or " + code(USAGE_JSON) + ".")
        + paragraph(f"{there} {PREFIX} {HELP} names their tools.")
    )
    return Text(plain, html)


def help_text(computers: Mapping[str, Sequence[str] | None]) -> Text:
    """Computers and what they can; None for one that has not said what."""
    if not computers:
        head = "There is no Computer in this office at the moment, so there is nothing to be called."
        return Text(head, Html(head))
    lines = [_computer_line(name, computers[name]) for name in sorted(computers)[:MOST_COMPUTERS]]
    if len(computers) > MOST_COMPUTERS:
        lines.append(Text.of(f"and {len(computers) - MOST_COMPUTERS} more"))
    time = f"{PREFIX} --timeout 300 …"
    how = Text.of("To call a tool: ") + _code(USAGE) + Text.of(", or ") + _code(USAGE_JSON)
    how += Text.of("; with ") + _code(time) + Text.of(" it has more time than a minute.")
    head = "What you can call:"
    return Text(
        "\n".join([head, *(f"- {line.plain}" for line in lines), how.plain]),
        joined([paragraph(head), html_list(line.html for line in lines), paragraph(how.html)]),
    )


def answer_text(
    computer: str, tool_name: str, answer: Mapping[str, Any], took_ms: int | None, thread: str | None
) -> Text:
    """What came of a call: its beginning, and where the whole of it stands. `thread` is the address of the
    call's message, if there is one."""
    result = read_result(answer, tool_name)
    head = (
        shown_name(tool_name)
        + Text.of(" on ")
        + shown_name(computer)
        + Text.of(f": {outcome_words(result.outcome, took_ms)}")
    )
    shown = beginning(result.text.plain, RESULT_LINES, LONGEST_RESULT).rstrip()
    said = head
    if shown:
        said = Text(f"{head.plain}\n{shown}", paragraph(head.html) + paragraph(shown))
    if thread is None:
        return said
    where = "The call and its whole result"
    return said + Text(f"\n{where}: {thread}", paragraph(link(thread, where)))


def address_of(room_id: str, event_id: str) -> str:
    """By which clients find a message."""
    return f"https://matrix.to/#/{quote(room_id, safe='')}/{quote(event_id, safe='')}"


def _computer_line(name: str, tools: Sequence[str] | None) -> Text:
    if tools is None:
        return shown_name(name) + Text.of(": has not said what it can")
    if not tools:
        return shown_name(name) + Text.of(": has no tools")
    line = shown_name(name) + Text.of(": ")
    for at, tool in enumerate(tools[:MOST_TOOLS]):
        line = line + Text.of(", " if at else "") + _code(one_line(tool, LONGEST_SHOWN))
    more = f" and {len(tools) - MOST_TOOLS} more" if len(tools) > MOST_TOOLS else ""
    return line + Text.of(more)


def _code(text: str) -> Text:
    return Text(text, code(text))
