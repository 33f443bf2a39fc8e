"""Text that others have written, made harmless for a terminal.

A room's name may hold the sequences that move a cursor, write a file's name into a title or colour a refusal
green; and characters that show `evil` as `live`, or nothing at all where there is something. What is shown of
them is their number.
"""

import unicodedata
from typing import Final

LONGEST: Final = 2_000
"""Characters of one text that are shown."""
# Control, format (the ones that turn the direction among them), surrogate, private use, unassigned; and what
# ends a line without being a line feed.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# An emoji is often several, joined by this; between two others it is as unseen as the rest.
_JOINER: Final = "\u200d"


def harmless(text: str, longest: int = LONGEST) -> str:
    """One line of it, in which every character is seen."""
    cut = text[:longest]
    shown = "".join(
        character if _is_seen(character) or _joins(cut, at) else _number(character)
        for at, character in enumerate(cut)
    )
    return shown + "…" if len(text) > longest else shown


def harmless_lines(text: str) -> str:
    """As `harmless`, of any length and with its own line feeds: pretty printed JSON."""
    return "\n".join(harmless(line, len(line)) for line in text.split("\n"))


def _is_seen(character: str) -> bool:
    # Combining marks are seen, on what comes before them.
    return unicodedata.category(character) not in _UNSEEN


def _joins(text: str, at: int) -> bool:
    """Between two symbols, as emoji have it."""
    if text[at] != _JOINER or not 0 < at < len(text) - 1:
        return False
    around = (unicodedata.category(text[at - 1]), unicodedata.category(text[at + 1]))
    # The one before may carry a selector of its form, or a colour of skin.
    return around[0] in {"So", "Mn", "Sk"} and around[1] == "So"


def _number(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def short(value: object, longest: int = 500) -> str:
    """A text in a line, of which none pushes the others out."""
    text = "" if value is None else str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
