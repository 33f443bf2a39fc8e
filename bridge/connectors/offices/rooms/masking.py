"""Masks the parameters of a tool call before they are stored or sent to a room: removes secrets and limits
the size.

A value whose name indicates a secret is hidden entirely. In any text, a part that looks like a secret is
hidden. Everything that is omitted leaves a note in its place, because people decide on approvals by what they
see here.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from bridge.text.redaction import HIDDEN, redact_text

MAX_BYTES: Final = 24 * 1024
"""Of the whole value as JSON."""
MAX_DEPTH: Final = 100
"""Levels of nested objects and arrays."""
MAX_TEXT_LENGTH: Final = 4_000
MAX_KEY_LENGTH: Final = 200
"""Characters of a text, and of a name, that are kept."""
MAX_PATH_LENGTH: Final = 200
MAX_PATHS_BYTES: Final = 4 * 1024
"""Of the list of hidden values."""
MORE: Final = "…"
"""Stands for what does not fit."""

# Parts of names, and whole names. Only the letters and digits of a name are compared.
_PARTS: Final = (
    "password", "passwd", "passphrase", "passcode", "secret", "token", "authorization", "cookie",
    "credential", "apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "seed", "mnemonic",
    "bearer",
)  # fmt: skip
_WHOLE: Final = frozenset({"auth", "pass", "pwd", "pin", "otp", "totp", "jwt"})
_COUNT: Final = "tokens"
"""A number with such a name is a token count of a language model."""
# Lists of headers and variables often have this form: {"name": "X-Api-Key", "value": "…"}.
_NAMING: Final = ("name", "key", "header")
_VALUE: Final = "value"

_MAX_CLASSIFIED: Final = 1_000
_MAX_INTEGER: Final = 2**53 - 1
_MAX_BITS: Final = 160
_UNSENDABLE: Final = re.compile("[\0\ud800-\udfff]")
# A secret that is cut in half no longer has the shape of one, so more is searched than is kept.
_MARGIN: Final = 512
# Bytes of the smallest placeholder for a value, and bytes reserved for `MORE`.
_PLACEHOLDER_BYTES: Final = 64
_RESERVED: Final = 48

_MAX_CACHED_LENGTH: Final = 64
_MAX_CACHED: Final = 2_000
"""A tool uses the same parameter names each time: so many names are cached with their classification, but
never a value."""
# Each text with the shape of a secret contains one of these, in lower case. Most texts contain none, and
# searching for the shapes takes twenty times as long.
_MARKERS: Final = (
    "://",
    "bearer",
    "basic",
    "password",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "eyj",
    "gho_",
    "ghp_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "sk-",
    "plv_",
    "plo_",
    "ed25519 ",
    "-----begin",
)


class MaskedValue(NamedTuple):
    """`hidden` are the JSON pointers (RFC 6901) of the values that are hidden wholly or in part."""

    value: Any
    hidden: tuple[str, ...]


def masked(params: object, extra_keys: Collection[str] = ()) -> MaskedValue:
    """Return a masked copy of params, which may have any form. `extra_keys` are further names of secrets;
    case and punctuation do not matter."""
    masker = _Masker(frozenset(_normalized(key) for key in extra_keys))
    return MaskedValue(masker.copy(params), tuple(masker.hidden))


class _Masker:
    """Masks one value from its beginning until the size limit is reached. What follows is not read."""

    def __init__(self, extra: frozenset[str]) -> None:
        self._extra = extra
        self._left = MAX_BYTES
        self._path: list[str] = []
        self._paths_left = MAX_PATHS_BYTES
        self.hidden: list[str] = []

    def copy(self, value: object) -> Any:
        """The caller makes sure that at least a placeholder fits."""
        match value:
            case str():
                return self._text(value)
            case None | bool() | int() | float():
                return self._spend(_leaf(value))
            case Mapping() | list() | tuple() if len(self._path) >= MAX_DEPTH:
                return self._spend(f"[deeper than {MAX_DEPTH} levels]")
            case Mapping():
                return self._object(value)
            case list() | tuple():
                return self._array(value)
            case _:
                return self._spend(_leaf(value))

    def _object(self, given: Mapping[Any, Any]) -> dict[str, Any]:
        self._left -= 2 + _RESERVED
        made: dict[str, Any] = {}
        names_secret = self._is_pair(given)
        for at, (key, item) in enumerate(given.items()):
            read = _name(key)
            name = _unused(read.shown, made)
            cost = _size(name) + 2
            if self._left < cost + _PLACEHOLDER_BYTES:
                made[_unused(MORE, made)] = f"[{len(given) - at} more]"
                return made
            self._left -= cost
            self._path.append(name)
            if self._is_secret(read, item) or (names_secret and read.normalized == _VALUE):
                made[name] = self._spend(HIDDEN)
                self._hide()
            else:
                made[name] = self.copy(item)
                if read.is_hidden:
                    self._hide()
            self._path.pop()
        self._left += _RESERVED
        return made

    def _array(self, given: Sequence[Any]) -> list[Any]:
        self._left -= 2 + _RESERVED
        made: list[Any] = []
        for at, item in enumerate(given):
            if self._left < 1 + _PLACEHOLDER_BYTES:
                return [*made, f"[{len(given) - at} more]"]
            self._left -= 1
            self._path.append(str(at))
            made.append(self.copy(item))
            self._path.pop()
        self._left += _RESERVED
        return made

    def _text(self, text: str) -> str:
        shown, is_hidden = _without_secrets(text)
        if is_hidden:
            self._hide()
        is_whole = len(text) <= MAX_TEXT_LENGTH + _MARGIN and len(shown) <= MAX_TEXT_LENGTH
        if is_whole and _size(shown) <= self._left:
            return str(self._spend(shown))
        note = f"… [{len(text)} characters]"
        return str(self._spend(_cut(shown[:MAX_TEXT_LENGTH], self._left - len(note.encode())) + note))

    def _spend(self, value: Any) -> Any:
        self._left -= _size(value)
        return value

    def _hide(self) -> None:
        pointer = "".join(f"/{_in_pointer(name)}" for name in self._path[:MAX_PATH_LENGTH])
        path = pointer if len(pointer) <= MAX_PATH_LENGTH else f"{pointer[:MAX_PATH_LENGTH]}{MORE}"
        if self._paths_left <= 0 or path in self.hidden[-1:]:
            return
        # The last entry that fits says that there are more.
        self._paths_left -= _size(path) + 1
        self.hidden.append(path if self._paths_left > 0 else MORE)

    # -- what is secret --

    def _is_secret(self, name: "_Name", item: object) -> bool:
        """Booleans and null are not secrets."""
        if item is None or isinstance(item, bool) or not self._names_secret(name.normalized, name.is_secret):
            return False
        return not (isinstance(item, int | float) and name.normalized.endswith(_COUNT))

    def _names_secret(self, normalized: str, is_secret: bool) -> bool:
        return is_secret or normalized in self._extra

    def _is_pair(self, given: Mapping[Any, Any]) -> bool:
        if len(given) > 10:
            return False
        names = [item for key, item in given.items() if isinstance(item, str) and _normalized_key(key) in _NAMING]
        return any(self._names_secret(*_classify(name)) for name in names)


class _Name(NamedTuple):
    """The name of a value. `normalized` is the form for comparison, `shown` the form for people; `is_hidden`:
    a part of the name is hidden."""

    normalized: str
    is_secret: bool
    shown: str
    is_hidden: bool


def _name(key: object) -> _Name:
    if type(key) is str and len(key) <= _MAX_CACHED_LENGTH:
        return _cached_name(key)
    return _read_name(key)


@lru_cache(_MAX_CACHED)
def _cached_name(key: str) -> _Name:
    return _read_name(key)


def _read_name(key: object) -> _Name:
    shown, is_hidden = _without_secrets(key if isinstance(key, str) else str(_leaf(key)))
    shown = shown if len(shown) <= MAX_KEY_LENGTH else f"{shown[:MAX_KEY_LENGTH]}{MORE}"
    normalized, is_secret = _classify(key) if isinstance(key, str) else ("", False)
    return _Name(normalized, is_secret, shown, is_hidden)


def _classify(name: str) -> tuple[str, bool]:
    """The normalized name, and whether it indicates a secret."""
    normalized = _normalized(name)
    # A name of such a length is no ordinary name, so its value is hidden.
    is_secret = len(name) > _MAX_CLASSIFIED or normalized in _WHOLE or any(part in normalized for part in _PARTS)
    return normalized, is_secret


def _normalized_key(key: object) -> str:
    if type(key) is str and len(key) <= _MAX_CACHED_LENGTH:
        return _cached_name(key).normalized
    return _normalized(key) if isinstance(key, str) else ""


def _normalized(name: str) -> str:
    """API_KEY, api-key and apiKey become the same."""
    folded = unicodedata.normalize("NFKC", name[:_MAX_CLASSIFIED]).casefold()
    return "".join(filter(str.isalnum, folded))


def _unused(name: str, made: Mapping[str, Any]) -> str:
    """Masking can make two names equal; a number keeps both values."""
    number, free = len(made) + 1, name
    while free in made:
        free, number = f"{name} ({number})", number + 1
    return free


def _without_secrets(text: str) -> tuple[str, bool]:
    """The beginning of the text with secrets hidden, and whether there were any."""
    head = text[: MAX_TEXT_LENGTH + _MARGIN]
    may_hold_one = _may_hold_secret(head)
    if "\0" in head or not head.isascii():
        head = _UNSENDABLE.sub("\ufffd", head)
    shown = redact_text(head) if may_hold_one else head
    is_hidden = shown != head
    if len(text) > MAX_TEXT_LENGTH + _MARGIN:
        shown = shown[: max(0, len(shown) - _MARGIN)]
    return shown, is_hidden


def _may_hold_secret(text: str) -> bool:
    """Non-ASCII characters may be equivalent to ASCII ones in the shapes, so such texts are always
    searched."""
    if not text.isascii():
        return True
    folded = text.lower()
    return any(marker in folded for marker in _MARKERS)


def _leaf(value: object) -> Any:
    """Matrix has integers up to 2^53 and no other numbers. Bytes come from Socket.IO attachments."""
    match value:
        case None | bool():
            return value
        case int():
            if -_MAX_INTEGER <= value <= _MAX_INTEGER:
                return int(value)
            bits = value.bit_length()
            return str(value) if bits <= _MAX_BITS else f"[a number of {bits} bits]"
        case float():
            return repr(value)
        case bytes() | bytearray():
            return f"[{len(value)} bytes]"
        case _:
            return f"[{type(value).__name__[:20]}]"


def _in_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _size(value: Any) -> int:
    return len(orjson.dumps(value))


def _cut(text: str, max_bytes: int) -> str:
    """The longest prefix that fits; a character takes one to six bytes of JSON."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low]
