"""Event graphs as text and for Graphviz."""

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.text.event_graph import MOST_LANES, beyond, dot, lines, short


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


def test_a_line_of_events_is_one_lane() -> None:
    """Newest first."""
    assert drawings(event("$c", "$b"), event("$b", "$a"), event("$a")) == ["*", "*", "*"]


def test_a_fork_has_a_lane_for_each_side() -> None:
    """Which come together in the event that both follow, and in the one that follows both."""
    assert drawings(event("$c", "$a"), event("$b", "$a"), event("$a")) == ["*", "| *", "* /"]
    assert drawings(event("$d", "$b", "$c"), event("$c", "$a"), event("$b", "$a"), event("$a", "$z")) == [
        "*",
        "| *",
        "* |",
        "* /",
    ]


def test_unconnected_parts_stand_side_by_side() -> None:
    """Where something between them is missing."""
    assert drawings(event("$d", "$c"), event("$b", "$a"), event("$c"), event("$a")) == [
        "*",
        "| *",
        "* |",
        "*",
    ]


def test_a_wide_graph_is_cut() -> None:
    """Whoever makes a thousand ends fills no screen with them."""
    wide = [event(f"${number}", f"$p{number}") for number in range(100)]
    last = drawings(*wide)[-1]
    assert last == " ".join("|" * MOST_LANES) + " …"


def test_a_line_says_what_the_event_is() -> None:
    """Its verdict with the rule, whether it is an end or a fork, and what it follows."""
    [accepted, refused] = lines(
        dag(
            event("$1234567890abcdef", "$p1", "$p2", is_extremity=True, followed_by=2, state_key=""),
            event("$r", verdict="soft_failed", refusal="5: not in the room"),
        )
    )
    assert accepted.said == (
        "$1234567890a  1970-01-01 00:00:00 UTC  m.room.message []  @a:b  (end)"
        "  (fork: followed by 2)  ← $p1, $p2"
    )
    assert (refused.verdict, "(soft failed: 5: not in the room)" in refused.said) == ("soft_failed", True)
    assert beyond(dag(p1="accepted", p2=None)) == ["$p1  accepted, not shown", "$p2  not here: a gap"]


def test_graphviz_gets_every_node_and_edge() -> None:
    """What is not here is dashed, what was refused red, an end bold."""
    source = dot(
        dag(event("$b", "$a", "$a", is_extremity=True), event("$a", "$p", verdict="rejected"), p=None)
    )
    assert source.count(" -> ") == 2
    assert '"$b" -> "$a";' in source
    assert re.search(r'"\$b" \[label="m\.room\.message\\n@a:b.*penwidth=3\];', source)
    assert re.search(r'"\$a" \[label=".*rejected.*", color=red\];', source)
    assert '"$p" [label="$p\\nnot here", style=dashed];' in source


HOSTILE = st.text(alphabet=st.one_of(st.characters(), st.sampled_from('\x1b"\\\n[]{};')))


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_word_of_an_event_leaves_its_place(type_: str, sender: str, refusal: str) -> None:
    """Not the quotes of Graphviz's source, not the line on the terminal."""
    made = dag(event("$a", type=type_, sender=sender, verdict="rejected", refusal=refusal))
    statements = dot(made).splitlines()
    assert len(statements) == 4
    assert re.fullmatch(r'  "\$a" \[label="([^"\\]|\\.)*", color=red\];', statements[2])
    [line] = lines(made)
    assert "\x1b" not in line.said
    assert "\n" not in line.said


def test_an_id_is_shortened() -> None:
    """To as much as finds it again."""
    assert short("$1234567890abcdef") == "$1234567890a"
    assert short("$12") == "$12"
