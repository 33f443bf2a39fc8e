"""What a person is told who has called a tool."""

from bridge.connectors.offices.calls.chat_command import NoOrder
from bridge.connectors.offices.protocol.errors import computer_not_found
from bridge.connectors.offices.rooms.call_events import address_of, answer_text, help_text, mistake_text

DONE = {"content": [{"type": "text", "text": "<b>3</b>\nfour"}], "isError": False}


def test_a_mistake_is_told_with_how_it_is_said() -> None:
    """And with who is there."""
    said = mistake_text(NoOrder("It is <wrong>."), ["eyes", "hands"])
    for part in (
        "It is <wrong>.",
        "!call COMPUTER TOOL a=1 b=2",
        '{"a": 1, "b": 2}',
        "There are eyes, hands.",
    ):
        assert part in said.plain
    assert "&lt;wrong&gt;" in str(said.html)
    assert "no Computer at the moment" in mistake_text(NoOrder("x"), []).plain


def test_help_names_computers_and_tools() -> None:
    """As far as they have said what they can; a list that nobody reads is cut."""
    said = help_text({"hands": ("add", "<sub>"), "eyes": None, "ears": ()})
    lines = said.plain.splitlines()
    assert lines[:4] == [
        "What you can call:",
        "- ears: has no tools",
        "- eyes: has not said what it can",
        "- hands: add, <sub>",
    ]
    assert "&lt;sub&gt;" in str(said.html)
    assert "nothing to be called" in help_text({}).plain
    many = help_text({f"c{n:03}": tuple(f"t{m}" for m in range(100)) for n in range(100)})
    assert "and 80 more" in many.plain
    assert "and 60 more" in many.plain
    assert len(many.plain) < 8_000


def test_what_came_of_a_call_is_told() -> None:
    """Its beginning, and where the whole of it stands."""
    said = answer_text("hands", "add", DONE, 400, "https://matrix.to/#/x")
    assert said.plain.splitlines() == [
        "add on hands: ✅ 0.4 s", "<b>3</b>", "four", "The call and its whole result: https://matrix.to/#/x",
    ]  # fmt: skip
    assert "&lt;b&gt;3&lt;/b&gt;" in str(said.html)
    assert '<a href="https://matrix.to/#/x">' in str(said.html)
    long = answer_text("hands", "add", {"content": [{"type": "text", "text": "x" * 5_000}]}, None, None)
    assert len(long.plain) < 600
    assert (
        "❌ The Computer is not there."
        in answer_text("hands", "add", computer_not_found("hands"), 1, None).plain
    )


def test_a_message_has_an_address() -> None:
    """In which nothing of what ids hold means anything else."""
    assert address_of("!a:b", "$c/d") == "https://matrix.to/#/%21a%3Ab/%24c%2Fd"
