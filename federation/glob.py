"""Patterns of server names, as ACLs and the configuration write them."""

import re


class Glob:
    """A pattern with `*` for any characters and `?` for one; case does not matter (v1.19, MSC4436).

    Between two stars there is only ever one thing to do: find the next piece as early as possible. So
    matching takes time in proportion to what is matched, and no pattern can be made to take longer, as it
    can with a regular expression of many stars.
    """

    __slots__ = ("_first", "_last", "_last_length", "_middle")

    def __init__(self, pattern: str) -> None:
        first, *rest = re.split(r"\*+", pattern.lower())
        self._first = _piece(first)
        self._middle = [_piece(piece) for piece in rest[:-1]]
        self._last = _piece(rest[-1]) if rest else None
        self._last_length = len(rest[-1]) if rest else 0

    def matches(self, text: str) -> bool:
        text = text.lower()
        start = self._first.match(text)
        if start is None:
            return False
        if self._last is None:
            return start.end() == len(text)
        position = start.end()
        for piece in self._middle:
            found = piece.search(text, position)
            if found is None:
                return False
            position = found.end()
        # The last piece must end the text. Having no stars, it is as long as what it matches.
        end = len(text) - self._last_length
        return end >= position and self._last.match(text, end) is not None


def _piece(text: str) -> re.Pattern[str]:
    """A piece without stars, which matches exactly as many characters as it has."""
    return re.compile(
        "".join("." if character == "?" else re.escape(character) for character in text), re.DOTALL
    )
