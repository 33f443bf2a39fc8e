"""Patterns of names that are free text: `*` stands for any characters, or none, and every other sign for
itself. In another case it is another name.
"""

from typing import Final

STAR: Final = "*"


def fits(pattern: str, text: str) -> bool:
    """Between two stars there is one thing to do: find the next piece as early as possible. So no pattern can
    be made to take long."""
    first, *rest = pattern.split(STAR)
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first):
        return False
    position = len(first)
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return text.endswith(last) and len(text) - len(last) >= position
