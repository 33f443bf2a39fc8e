"""File names that somebody else chose, made harmless: they are shown to people, and saved under by programs.

None of them ever names a file of this node.
"""

import unicodedata
from typing import Final

MOST_BYTES: Final = 255
"""What file systems take."""
_LOOKED_AT: Final = 4096
_MOST_OF_A_SUFFIX: Final = 16
# Control and format characters (the ones that turn the direction of writing among them), lone surrogates,
# private and unassigned ones, and separators of lines and paragraphs.
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_file_name(name: str | None) -> str | None:
    """One name without directories that is safe to show and to save; None when nothing is left of it."""
    if not name:
        return None
    # The end: there stand the name without its directories, and the suffix.
    last = name[-_LOOKED_AT:].replace("\\", "/").rpartition("/")[2]
    visible = "".join(one if _is_harmless(one) else " " for one in unicodedata.normalize("NFC", last))
    # Blanks and dots at the ends hide: `.profile` from a listing, `a.exe .` from a reader.
    plain = " ".join(visible.split()).strip(" .")
    return _shortened(plain) or None


def _is_harmless(character: str) -> bool:
    return unicodedata.category(character) not in _REFUSED and character not in '"<>|:*?'


def _shortened(name: str) -> str:
    if len(name.encode()) <= MOST_BYTES:
        return name
    stem, dot, suffix = name.rpartition(".")
    end = (dot + suffix).encode()
    if not dot or len(end) > _MOST_OF_A_SUFFIX:
        return _cut(name, MOST_BYTES)
    return _cut(stem, MOST_BYTES - len(end)) + end.decode()


def _cut(text: str, most: int) -> str:
    """Never in the middle of a character."""
    return text.encode()[:most].decode("utf-8", "ignore").rstrip(" .")
