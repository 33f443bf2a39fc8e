"""What a person is told who has called a tool in the room of an office, or who asks what there is to be
called."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from bridge.connectors.offices.call_command import HELP, PREFIX, USAGE, USAGE_JSON, NoOrder
from bridge.connectors.offices.call_events import shown_name
from bridge.connectors.offices.direct_call import LONGEST_SHOWN, named
from bridge.connectors.offices.tool_result import outcome_words, read_result
from bridge.people.cleaning import beginning, one_line
from bridge.people.text import Text, joined
from federation.message_content import Html, code, link, listed, paragraph

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
        joined([paragraph(head), listed(line.html for line in lines), paragraph(how.html)]),
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
