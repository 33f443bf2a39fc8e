"""A room's event graph as lines of text and as Graphviz's source. What is drawn is the answer of `rooms-dag`.

Every word in it was chosen by somebody else, and is made harmless.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.text.terminal import harmless
from bridge.text.times import moment

MOST_LANES: Final = 16
"""Side by side. Whoever makes a graph wide makes it no wider than this here."""
SHORT: Final = 12
"""Characters of an id: enough to find an event or a room by."""
LONGEST: Final = 60
"""Characters of a type, a key or a user."""
_COLOURS: Final = {"accepted": "black", "soft_failed": "orange", "rejected": "red"}


@dataclass(frozen=True, slots=True)
class Line:
    """`drawing` is where the event stands between the others; `said` what it is."""

    drawing: str
    said: str
    verdict: str


def lines(dag: Mapping[str, Any]) -> Iterator[Line]:
    """One for each event, newest first: `*` in the lane of the event, `|` where others run by, `/` where two
    that follow it come together."""
    lanes: list[str] = []
    for event in dag["events"]:
        yield Line(_drawing(lanes, event["event_id"], event["prev_events"]), _said(event), event["verdict"])


def beyond(dag: Mapping[str, Any]) -> list[str]:
    """The events that are followed and not shown."""
    return [
        f"{short(event_id)}  {'not here: a gap' if verdict is None else f'{_verdict(verdict)}, not shown'}"
        for event_id, verdict in dag["beyond"].items()
    ]


def short(event_id: str) -> str:
    return harmless(event_id, SHORT).rstrip("…")


def _drawing(lanes: list[str], event_id: str, prev_events: Sequence[str]) -> str:
    """`lanes` are the events that each lane leads to; they are moved on."""
    if event_id not in lanes:
        lanes.append(event_id)
    at = lanes.index(event_id)
    marks = ["/" if lane == event_id else "|" for lane in lanes]
    marks[at] = "*"
    drawing = " ".join(marks[:MOST_LANES]) + (" …" if len(marks) > MOST_LANES else "")
    further = [prev for prev in dict.fromkeys(prev_events) if prev not in lanes]
    # The lane goes on to what the event follows, also where another lane leads there already: they meet.
    first = further[:1] or list(prev_events[:1])
    before = [lane for lane in lanes[:at] if lane != event_id]
    lanes[:] = [*before, *first, *further[1:], *(lane for lane in lanes[at + 1 :] if lane != event_id)]
    return drawing


def _said(event: Mapping[str, Any]) -> str:
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
        yield f"({_verdict(event['verdict'])}: {harmless(event['refusal'] or 'for no reason known', 200)})"
    if event["is_extremity"]:
        yield "(end)"
    if event["followed_by"] > 1:
        yield f"(fork: followed by {event['followed_by']})"


def _verdict(verdict: str) -> str:
    return verdict.replace("_", " ")


def dot(dag: Mapping[str, Any]) -> str:
    """For Graphviz: the oldest at the bottom, arrows to what is followed."""
    return "\n".join(["digraph room {", *_statements(dag), "}", ""])


def _statements(dag: Mapping[str, Any]) -> Iterable[str]:
    yield '  rankdir=BT; node [shape=box, fontname="monospace", fontsize=10];'
    for event in dag["events"]:
        key = event["state_key"]
        label = [
            event["type"] if key is None else f"{event['type']} [{key}]",
            event["sender"],
            f"{short(event['event_id'])}, depth {event['depth']}",
            *(
                []
                if event["verdict"] == "accepted"
                else [f"{_verdict(event['verdict'])}: {event['refusal']}"]
            ),
        ]
        colour = _COLOURS.get(event["verdict"], "black")
        width = ", penwidth=3" if event["is_extremity"] else ""
        yield f"  {_quoted(event['event_id'])} [label={_label(label)}, color={colour}{width}];"
    for event_id, verdict in dag["beyond"].items():
        what = "not here" if verdict is None else _verdict(verdict)
        yield f"  {_quoted(event_id)} [label={_label([short(event_id), what])}, style=dashed];"
    for event in dag["events"]:
        for prev in dict.fromkeys(event["prev_events"]):
            yield f"  {_quoted(event['event_id'])} -> {_quoted(prev)};"


def _label(texts: Iterable[str]) -> str:
    return '"' + r"\n".join(_escaped(text) for text in texts) + '"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return harmless(text, 300).replace("\\", "\\\\").replace('"', '\\"')
