"""Draws a room's event graph, the answer of the command `rooms-dag`, as lines of text or as Graphviz source.

Remote users chose all texts in it, so control characters are removed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.text.terminal import harmless
from bridge.text.times import moment

MAX_LANES: Final = 16
"""Maximum width of the drawing, however many branches the graph has."""
SHORT: Final = 12
"""Characters of a shortened id. Commands find an event or a room by them."""
LONGEST: Final = 60
"""Maximum characters of a type, a state key or a user id."""
_COLOURS: Final = {"accepted": "black", "soft_failed": "orange", "rejected": "red"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the drawing. `drawing` has the lanes of the graph, `text` describes the event."""

    drawing: str
    text: str
    verdict: str


def lines(dag: Mapping[str, Any]) -> Iterator[Line]:
    """Draw one line for each event, newest first: `*` in the lane of the event, `|` in other lanes, `/` where
    the lanes of two events with the same prev event meet."""
    lanes: list[str] = []
    for event in dag["events"]:
        drawing = _drawing(lanes, event["event_id"], event["prev_events"])
        yield Line(drawing, _description(event), event["verdict"])


def beyond(dag: Mapping[str, Any]) -> list[str]:
    """Describe the prev events that are not in the drawing."""
    return [
        f"{short(event_id)}  {'missing: a gap' if verdict is None else f'{_verdict(verdict)}, not shown'}"
        for event_id, verdict in dag["beyond"].items()
    ]


def short(event_id: str) -> str:
    """The beginning of an id, which is enough to find it."""
    return harmless(event_id, SHORT).rstrip("…")


def _drawing(lanes: list[str], event_id: str, prev_events: Sequence[str]) -> str:
    """Draw one event and advance `lanes`, which has for each lane the event that it leads to."""
    if event_id not in lanes:
        lanes.append(event_id)
    at = lanes.index(event_id)
    marks = ["/" if lane == event_id else "|" for lane in lanes]
    marks[at] = "*"
    drawing = " ".join(marks[:MAX_LANES]) + (" …" if len(marks) > MAX_LANES else "")
    further = [prev for prev in dict.fromkeys(prev_events) if prev not in lanes]
    # The lane continues to the first prev event, even if another lane leads there: the lanes meet.
    first = further[:1] or list(prev_events[:1])
    before = [lane for lane in lanes[:at] if lane != event_id]
    lanes[:] = [*before, *first, *further[1:], *(lane for lane in lanes[at + 1 :] if lane != event_id)]
    return drawing


def _description(event: Mapping[str, Any]) -> str:
    key = event["state_key"]
    words = [
        short(event["event_id"]),
        moment(event["origin_server_ts"]),
        harmless(event["type"], LONGEST) + ("" if key is None else f" [{harmless(key, LONGEST)}]"),
        harmless(event["sender"], LONGEST),
        *_notes(event),
    ]
    follows = ", ".join(map(short, event["prev_events"]))
    return "  ".join(words) + (f"  ← {follows}" if follows else "")


def _notes(event: Mapping[str, Any]) -> Iterator[str]:
    if event["verdict"] != "accepted":
        yield f"({_verdict(event['verdict'])}: {harmless(event['refusal'] or 'unknown reason', 200)})"
    if event["is_extremity"]:
        yield "(extremity)"
    if event["followed_by"] > 1:
        yield f"(fork: followed by {event['followed_by']})"


def _verdict(verdict: str) -> str:
    return verdict.replace("_", " ")


def dot(dag: Mapping[str, Any]) -> str:
    """Return the graph as Graphviz source: the oldest event at the bottom, arrows to prev events."""
    return "\n".join(["digraph room {", *_statements(dag), "}", ""])


def _statements(dag: Mapping[str, Any]) -> Iterable[str]:
    yield '  rankdir=BT; node [shape=box, fontname="monospace", fontsize=10];'
    for event in dag["events"]:
        key = event["state_key"]
        label = [
            event["type"] if key is None else f"{event['type']} [{key}]",
            event["sender"],
            f"{short(event['event_id'])}, depth {event['depth']}",
            *([] if event["verdict"] == "accepted" else [f"{_verdict(event['verdict'])}: {event['refusal']}"]),
        ]
        colour = _COLOURS.get(event["verdict"], "black")
        width = ", penwidth=3" if event["is_extremity"] else ""
        yield f"  {_quoted(event['event_id'])} [label={_label(label)}, color={colour}{width}];"
    for event_id, verdict in dag["beyond"].items():
        status = "missing" if verdict is None else _verdict(verdict)
        yield f"  {_quoted(event_id)} [label={_label([short(event_id), status])}, style=dashed];"
    for event in dag["events"]:
        for prev in dict.fromkeys(event["prev_events"]):
            yield f"  {_quoted(event['event_id'])} -> {_quoted(prev)};"


def _label(texts: Iterable[str]) -> str:
    return '"' + r"\n".join(_escaped(text) for text in texts) + '"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return harmless(text, 300).replace("\\", "\\\\").replace('"', '\\"')
