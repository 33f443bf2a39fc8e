"""Event graphs as text and as Graphviz source."""

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.text.event_graph import MAX_LANES, beyond, dot, lines, short


def event(event_id: str, *prev: str, **more: Any) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "type": "m.room.message",
        "state_key": None,
        "sender": "@a:b",
        "depth": 1,
        "origin_server_ts": 0,
        "prev_events": list(prev),
        "verdict": "accepted",
        "refusal": None,
        "is_extremity": False,
        "followed_by": 1,
        **more,
    }


def dag(*events: Mapping[str, Any], **beyond: str | None) -> dict[str, Any]:
    return {"events": events, "beyond": {f"${name}": verdict for name, verdict in beyond.items()}}


def drawings(*events: Mapping[str, Any]) -> list[str]:
    return [line.drawing for line in lines(dag(*events))]


def test_a_chain_of_events_has_one_lane() -> None:
    """The newest event is first."""
    assert drawings(event("$c", "$b"), event("$b", "$a"), event("$a")) == ["*", "*", "*"]


def test_a_fork_has_a_lane_for_each_branch() -> None:
    """The lanes meet in the common prev event, and in an event with both branches as prev events."""
    assert drawings(event("$c", "$a"), event("$b", "$a"), event("$a")) == ["*", "| *", "* /"]
    assert drawings(event("$d", "$b", "$c"), event("$c", "$a"), event("$b", "$a"), event("$a", "$z")) == [
        "*",
        "| *",
        "* |",
        "* /",
    ]


def test_unconnected_parts_have_separate_lanes() -> None:
    """Events between them are missing."""
    assert drawings(event("$d", "$c"), event("$b", "$a"), event("$c"), event("$a")) == ["*", "| *", "* |", "*"]


def test_a_wide_graph_is_cut() -> None:
    """A room with a thousand extremities does not fill the screen."""
    wide = [event(f"${number}", f"$p{number}") for number in range(100)]
    last = drawings(*wide)[-1]
    assert last == " ".join("|" * MAX_LANES) + " …"


def test_a_line_describes_its_event() -> None:
    """With the verdict and its rule, whether it is an extremity or a fork, and its prev events."""
    [accepted, refused] = lines(
        dag(
            event("$1234567890abcdef", "$p1", "$p2", is_extremity=True, followed_by=2, state_key=""),
            event("$r", verdict="soft_failed", refusal="5: not in the room"),
        )
    )
    assert accepted.text == (
        "$1234567890a  1970-01-01 00:00:00 UTC  m.room.message []  @a:b  (extremity)  (fork: followed by 2)  ← $p1, $p2"
    )
    assert (refused.verdict, "(soft failed: 5: not in the room)" in refused.text) == ("soft_failed", True)
    assert beyond(dag(p1="accepted", p2=None)) == ["$p1  accepted, not shown", "$p2  missing: a gap"]


def test_graphviz_source_has_every_node_and_edge() -> None:
    """Missing events are dashed, rejected ones red, extremities bold."""
    source = dot(dag(event("$b", "$a", "$a", is_extremity=True), event("$a", "$p", verdict="rejected"), p=None))
    assert source.count(" -> ") == 2
    assert '"$b" -> "$a";' in source
    assert re.search(r'"\$b" \[label="m\.room\.message\\n@a:b.*penwidth=3\];', source)
    assert re.search(r'"\$a" \[label=".*rejected.*", color=red\];', source)
    assert '"$p" [label="$p\\nmissing", style=dashed];' in source


HOSTILE = st.text(alphabet=st.one_of(st.characters(), st.sampled_from('\x1b"\\\n[]{};')))


@given(HOSTILE, HOSTILE, HOSTILE)
def test_fields_of_events_are_escaped(type_: str, sender: str, refusal: str) -> None:
    """They cannot end a string of the Graphviz source or a line on the terminal."""
    made = dag(event("$a", type=type_, sender=sender, verdict="rejected", refusal=refusal))
    statements = dot(made).splitlines()
    assert len(statements) == 4
    assert re.fullmatch(r'  "\$a" \[label="([^"\\]|\\.)*", color=red\];', statements[2])
    [line] = lines(made)
    assert "\x1b" not in line.text
    assert "\n" not in line.text


def test_an_id_is_shortened() -> None:
    """Commands find it by this beginning."""
    assert short("$1234567890abcdef") == "$1234567890a"
    assert short("$12") == "$12"
