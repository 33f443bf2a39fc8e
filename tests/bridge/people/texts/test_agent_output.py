"""An agent's output as a message and a file."""

import pytest

from bridge.people.texts.agent_output import LONGEST, LONGEST_BEGINNING, MAX_LINES, file_name, format_output


def test_short_output_is_shown_completely() -> None:
    """As formatted text."""
    formatted = format_output("\n**a**\x1b[0m\n\n", "t-1")
    assert (formatted.text.plain, str(formatted.text.html), formatted.file) == (
        "**a**",
        "<p><strong>a</strong></p>",
        None,
    )


@pytest.mark.parametrize("output", ["x" * (LONGEST + 1), "x\n" * MAX_LINES + "x", "a line\n" * 10_000])
def test_long_output_is_a_file(output: str) -> None:
    """The message has the beginning and the size."""
    formatted = format_output(output, "t-1")
    assert formatted.file is not None
    assert formatted.file.name == "t-1.txt"
    assert formatted.file.content.decode() == output.rstrip()
    assert output.startswith(formatted.text.plain.split("\n\n[…]")[0])
    assert len(formatted.text.plain) < LONGEST_BEGINNING + 200
    assert f"{len(output.rstrip())} characters" in formatted.text.plain


def test_a_cut_code_block_is_still_code() -> None:
    """Up to the cut."""
    formatted = format_output("```python\n" + "x = 1\n" * 200 + "```\n", "t-1")
    assert str(formatted.text.html).startswith('<pre><code class="language-python">x = 1\n')


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("t-1", "t-1.txt"),
        ("../../etc/passwd", "etc-passwd.txt"),
        (".hidden", "hidden.txt"),
        ("…", "answer.txt"),
        ("", "answer.txt"),
        ("a\0b\nc", "a-b-c.txt"),
        ("x" * 300, "x" * 60 + ".txt"),
    ],
)
def test_the_file_name_is_safe(name: str, file: str) -> None:
    """The requester chooses the task's id."""
    assert file_name(name) == file
