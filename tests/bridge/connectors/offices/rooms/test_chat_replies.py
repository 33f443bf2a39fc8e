"""Replies to people who call tools."""

from bridge.connectors.offices.calls.chat_command import InvalidCommand
from bridge.connectors.offices.protocol.errors import computer_not_found
from bridge.connectors.offices.rooms.call_events import answer_text, help_text, invalid_command_text, message_link

DONE = {"content": [{"type": "text", "text": "<b>3</b>\nfour"}], "isError": False}


def test_a_mistake_is_explained() -> None:
    """With the correct form and the names of the Computers."""
    reply = invalid_command_text(InvalidCommand("It is <wrong>."), ["eyes", "hands"])
    for part in ("It is <wrong>.", "!call COMPUTER TOOL a=1 b=2", '{"a": 1, "b": 2}', "There are eyes, hands."):
        assert part in reply.plain
    assert "&lt;wrong&gt;" in str(reply.html)
    assert "no Computer at the moment" in invalid_command_text(InvalidCommand("x"), []).plain


def test_help_lists_computers_and_their_tools() -> None:
    """As far as they are known. A long list is shortened."""
    reply = help_text({"hands": ("add", "<sub>"), "eyes": None, "ears": ()})
    lines = reply.plain.splitlines()
    assert lines[:4] == ["What you can call:", "- ears: no tools", "- eyes: tools not known", "- hands: add, <sub>"]
    assert "&lt;sub&gt;" in str(reply.html)
    assert "no tools to call" in help_text({}).plain
    many = help_text({f"c{n:03}": tuple(f"t{m}" for m in range(100)) for n in range(100)})
    assert "and 80 more" in many.plain
    assert "and 60 more" in many.plain
    assert len(many.plain) < 8_000


def test_the_reply_to_a_call() -> None:
    """The outcome, the beginning of the result, and a link to the thread."""
    reply = answer_text("hands", "add", DONE, 400, "https://matrix.to/#/x")
    assert reply.plain.splitlines() == [
        "add on hands: ✅ 0.4 s", "<b>3</b>", "four", "The call and its whole result: https://matrix.to/#/x",
    ]  # fmt: skip
    assert "&lt;b&gt;3&lt;/b&gt;" in str(reply.html)
    assert '<a href="https://matrix.to/#/x">' in str(reply.html)
    long = answer_text("hands", "add", {"content": [{"type": "text", "text": "x" * 5_000}]}, None, None)
    assert len(long.plain) < 600
    assert (
        "❌ The Computer is not connected." in answer_text("hands", "add", computer_not_found("hands"), 1, None).plain
    )


def test_the_link_to_a_message() -> None:
    """Special characters in ids are escaped."""
    assert message_link("!a:b", "$c/d") == "https://matrix.to/#/%21a%3Ab/%24c%2Fd"
