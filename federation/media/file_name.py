"""File names that somebody else chose, made harmless: they are shown to people, and saved under by programs.

None of them ever names a file of this node.

The header `Content-Disposition`, RFC 6266: written for our media, read from that of others.
"""

import unicodedata
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import Any, Final
from urllib.parse import quote

from federation.media.media_type import is_inline

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


_LONGEST: Final = 4096


def content_disposition(content_type: str, file_name: str | None) -> str:
    """Inline only where nothing in the media can run; the name in ASCII for old readers, whole for others."""
    kind = "inline" if is_inline(content_type) else "attachment"
    name = safe_file_name(file_name)
    if name is None:
        return kind
    if name.isascii():
        return f'{kind}; filename="{_plain(name)}"'
    # RFC 8187. Readers take this one when they know it.
    return f"{kind}; filename=\"{_plain(name)}\"; filename*=utf-8''{quote(name, safe='')}"


def file_name_in(header: str | None) -> str | None:
    """The name in a header as aiohttp reads it. It has not been made safe."""
    if header is None or len(header) > _LONGEST:
        return None
    message = Message()
    message["Content-Disposition"] = _whole(header)
    parameters: list[tuple[str, Any]] = message.get_params([], "content-disposition")[1:]
    names = [value for name, value in parameters if name.lower() == "filename"]
    # RFC 6266, 4.3: `filename*`, which names its character set, goes first.
    extended = (name for name in names if isinstance(name, tuple) and name[0])
    name = next(extended, names[0] if names else "")
    try:
        return collapse_rfc2231_value(name) or None
    except ValueError:  # a character set may have any name, and refuse any bytes
        return None


def _plain(name: str) -> str:
    """`safe_file_name` has taken out what ends a quoted string; a backslash there is a separator."""
    return "".join(one if one.isascii() else "_" for one in name)


def _whole(header: str) -> str:
    """aiohttp reads UTF-8, which many servers write, and escapes bytes that are none."""
    try:
        header.encode()
    except UnicodeEncodeError:
        return header.encode("utf-8", "surrogateescape").decode("latin-1")
    return header
