"""Makes text of remote users safe to print on a terminal.

A room's name may contain escape sequences that move the cursor, change the title or colour a refusal green,
and characters that show `evil` as `live` or are invisible. They are replaced by their character codes.
"""

import unicodedata
from typing import Final

LONGEST: Final = 2_000
"""Maximum characters of a text that are shown."""
# Control, format (including those that change the direction of text), surrogate, private use, unassigned, and
# line and paragraph separators.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# The zero width joiner combines several emoji into one. Between other characters it is invisible.
_JOINER: Final = "\u200d"


def harmless(text: str, longest: int = LONGEST) -> str:
    """Return the text as one line without invisible characters, shortened to `longest` characters."""
    cut = text[:longest]
    shown = "".join(
        character if _is_visible(character) or _joins_emoji(cut, at) else _code(character)
        for at, character in enumerate(cut)
    )
    return shown + "…" if len(text) > longest else shown


def harmless_lines(text: str) -> str:
    """Like `harmless`, but keep line feeds and the complete length: for pretty-printed JSON."""
    return "\n".join(harmless(line, len(line)) for line in text.split("\n"))


def _is_visible(character: str) -> bool:
    # Combining marks are visible on the character before them.
    return unicodedata.category(character) not in _INVISIBLE


def _joins_emoji(text: str, at: int) -> bool:
    """Whether the character is a joiner between two emoji."""
    if text[at] != _JOINER or not 0 < at < len(text) - 1:
        return False
    around = (unicodedata.category(text[at - 1]), unicodedata.category(text[at + 1]))
    # The emoji before it may end with a variation selector or a skin tone.
    return around[0] in {"So", "Mn", "Sk"} and around[1] == "So"


def _code(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def short(value: object, longest: int = 500) -> str:
    """Return the value as text of at most `longest` characters, followed by … if it was cut."""
    text = "" if value is None else str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
