"""What an agent says, as people get to see it: long output is a file, of which the beginning is shown."""

import re
from dataclasses import dataclass, field
from typing import Final

from bridge.people.cleaning import beginning, cleaned
from bridge.people.markdown import to_html
from bridge.people.text import Text
from federation.message_content import italic, paragraph

LONGEST: Final = 6_000
MOST_LINES: Final = 80
"""Characters and lines that a message may have. What is longer is in the way of everything else."""
LONGEST_BEGINNING: Final = 2_000
BEGINNING_LINES: Final = 25

_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class File:
    name: str
    content: bytes = field(repr=False)
    content_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Words:
    text: Text
    file: File | None = None


def agent_words(output: str, name: str) -> Words:
    """`name` is what a file is called, before anything that has no place in one is taken out."""
    whole = cleaned(output).strip("\n").rstrip()
    if len(whole) <= LONGEST and whole.count("\n") < MOST_LINES:
        return Words(Text(whole, to_html(whole)))
    shown = beginning(whole, BEGINNING_LINES, LONGEST_BEGINNING).rstrip()
    lines = whole.count("\n") + 1
    note = f"[…] The whole answer is the file below: {lines} lines, {len(whole)} characters."
    text = Text(f"{shown}\n\n{note}", to_html(shown) + paragraph(italic(note)))
    return Words(text, File(file_name(name), whole.encode()))


def file_name(name: str) -> str:
    """Never a path, never hidden, never empty."""
    kept = _NAME.sub("-", name).strip(".-")[:_LONGEST_NAME]
    return f"{kept or 'answer'}.txt"
