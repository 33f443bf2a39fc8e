"""What an agent says, as people get to see it."""

import pytest

from bridge.people.texts.agent_output import LONGEST, LONGEST_BEGINNING, MOST_LINES, agent_words, file_name


def test_what_is_short_is_shown() -> None:
    """All of it, with its form."""
    words = agent_words("\n**a**\x1b[0m\n\n", "t-1")
    assert (words.text.plain, str(words.text.html), words.file) == (
        "**a**",
        "<p><strong>a</strong></p>",
        None,
    )


@pytest.mark.parametrize("output", ["x" * (LONGEST + 1), "x\n" * MOST_LINES + "x", "a line\n" * 10_000])
def test_what_is_long_is_a_file(output: str) -> None:
    """Of which the beginning is shown, with how much there is."""
    words = agent_words(output, "t-1")
    assert words.file is not None
    assert words.file.name == "t-1.txt"
    assert words.file.content.decode() == output.rstrip()
    assert output.startswith(words.text.plain.split("\n\n[…]")[0])
    assert len(words.text.plain) < LONGEST_BEGINNING + 200
    assert f"{len(output.rstrip())} characters" in words.text.plain


def test_code_that_is_cut_off_is_code() -> None:
    """Up to where it is cut."""
    words = agent_words("```python\n" + "x = 1\n" * 200 + "```\n", "t-1")
    assert str(words.text.html).startswith('<pre><code class="language-python">x = 1\n')


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
def test_a_file_has_a_harmless_name(name: str, file: str) -> None:
    """Whoever asked has chosen the task's id."""
    assert file_name(name) == file
