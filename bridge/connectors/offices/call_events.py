"""What a room is told of calls: each is the root of a thread, in which stands what it came to.

They are messages, so that any client shows them and Element makes threads of them; events of a type of their
own would be seen by nobody. For programs the same stands in them under the protocol's keys. They bear the
mark of what a Palaver says: nobody takes them for work.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bridge.connectors.offices.masking import Masked
from bridge.connectors.offices.tool_result import Outcome, ToolResult, outcome_words
from bridge.people.cleaning import beginning, cleaned, one_line
from bridge.people.text import MARK, Kind, Text, content_of, joined
from federation.media import MediaInfo
from federation.message_content import (
    Content,
    Html,
    code,
    code_block,
    details,
    in_thread,
    listed,
    paragraph,
    reference,
    text,
)
from federation.pdu import EventId
from federation.pdu.limits import MAX_OWN_CONTENT_BYTES

CALL: Final = "io.a2c.tool.call"
RESULT: Final = "io.a2c.tool.result"
DIGEST: Final = "io.a2c.tool.digest"
"""The keys under which the parts for programs stand."""

LONGEST_NAME: Final = 120
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


def shown_name(name: str) -> Text:
    """Of a stranger's choice: in code no client makes anything of it."""
    shown = one_line(name, LONGEST_NAME) or "–"
    return Text(shown, code(shown))


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
        joined([paragraph(head), listed(line.html for line in [*lines, *last])]),
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
