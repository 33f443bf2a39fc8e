"""Sanitises the file names of uploads, which are shown to users and used by programs to save files.

This node never uses them as names of its own files.

Also builds and parses the header `Content-Disposition`, RFC 6266.
"""

import unicodedata
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import Any, Final
from urllib.parse import quote

from federation.media.media_type import is_inline

MAX_BYTES: Final = 255
"""The limit of file systems."""
_MAX_EXAMINED: Final = 4096
_MAX_SUFFIX: Final = 16
# Control and format characters (including those that change the writing direction), lone surrogates,
# private and unassigned characters, and line and paragraph separators.
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_file_name(name: str | None) -> str | None:
    """Return a name without directories that is safe to show and to save; None if nothing is left of it."""
    if not name:
        return None
    # The end of the path has the name without directories and the suffix.
    last = name[-_MAX_EXAMINED:].replace("\\", "/").rpartition("/")[2]
    visible = "".join(one if _is_harmless(one) else " " for one in unicodedata.normalize("NFC", last))
    # Leading dots hide a file from listings, and trailing spaces and dots hide its suffix: `a.exe .`.
    plain = " ".join(visible.split()).strip(" .")
    return _shortened(plain) or None


def _is_harmless(character: str) -> bool:
    return unicodedata.category(character) not in _REFUSED_CATEGORIES and character not in '"<>|:*?'


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_BYTES:
        return name
    stem, dot, suffix = name.rpartition(".")
    end = (dot + suffix).encode()
    if not dot or len(end) > _MAX_SUFFIX:
        return _cut(name, MAX_BYTES)
    return _cut(stem, MAX_BYTES - len(end)) + end.decode()


def _cut(text: str, most: int) -> str:
    """Cut at a character boundary."""
    return text.encode()[:most].decode("utf-8", "ignore").rstrip(" .")


_MAX_LENGTH: Final = 4096


def content_disposition(content_type: str, file_name: str | None) -> str:
    """Build the header: inline only for types without active content, and the file name in ASCII for old
    clients and complete for others."""
    kind = "inline" if is_inline(content_type) else "attachment"
    name = safe_file_name(file_name)
    if name is None:
        return kind
    if name.isascii():
        return f'{kind}; filename="{_plain(name)}"'
    # RFC 8187. Clients that support it prefer this one.
    return f"{kind}; filename=\"{_plain(name)}\"; filename*=utf-8''{quote(name, safe='')}"


def file_name_in(header: str | None) -> str | None:
    """Return the file name in a header as aiohttp decodes it. It is not sanitised."""
    if header is None or len(header) > _MAX_LENGTH:
        return None
    message = Message()
    message["Content-Disposition"] = _whole(header)
    parameters: list[tuple[str, Any]] = message.get_params([], "content-disposition")[1:]
    names = [value for name, value in parameters if name.lower() == "filename"]
    # RFC 6266, 4.3: `filename*`, which has a character set, takes precedence.
    extended = (name for name in names if isinstance(name, tuple) and name[0])
    name = next(extended, names[0] if names else "")
    try:
        return collapse_rfc2231_value(name) or None
    except ValueError:  # unknown character set or undecodable bytes
        return None


def _plain(name: str) -> str:
    """Replace non-ASCII characters. `safe_file_name` has removed quotes and backslashes."""
    return "".join(one if one.isascii() else "_" for one in name)


def _whole(header: str) -> str:
    """Undo aiohttp's surrogate escapes: it decodes headers as UTF-8 and escapes other bytes."""
    try:
        header.encode()
    except UnicodeEncodeError:
        return header.encode("utf-8", "surrogateescape").decode("latin-1")
    return header
