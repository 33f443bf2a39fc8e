"""What a tool is called with, as a room may hold it: without secrets, and no larger than an event can bear.

What names a secret loses its value, whatever that is; what looks like one by its shape, in any text, loses
that part. What is left out otherwise says so in its place: people decide by what they see here.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from bridge.text.redaction import HIDDEN, redact_text

MOST_BYTES: Final = 24 * 1024
"""Of all of it, as JSON."""
MOST_LEVELS: Final = 100
"""Objects and arrays within each other."""
LONGEST_TEXT: Final = 4_000
LONGEST_KEY: Final = 200
"""Characters of a text, and of a name, that are kept."""
LONGEST_PATH: Final = 200
MOST_PATHS_BYTES: Final = 4 * 1024
"""Of the list of what is hidden."""
MORE: Final = "…"
"""Stands in place of what has found no room."""

# Part of a name, and a name by itself. Only letters and digits of a name count.
_PARTS: Final = (
    "password", "passwd", "passphrase", "passcode", "secret", "token", "authorization", "cookie",
    "credential", "apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "seed", "mnemonic",
    "bearer",
)  # fmt: skip
_WHOLE: Final = frozenset({"auth", "pass", "pwd", "pin", "otp", "totp", "jwt"})
_COUNT: Final = "tokens"
"""A number under such a name counts what language models read."""
# As headers and variables are often listed: {"name": "X-Api-Key", "value": "…"}.
_NAMING: Final = ("name", "key", "header")
_VALUE: Final = "value"

_LONGEST_JUDGED: Final = 1_000
_GREATEST: Final = 2**53 - 1
_MOST_BITS: Final = 160
_UNSENDABLE: Final = re.compile("[\0\ud800-\udfff]")
# A secret that a cut goes through is not known by its shape: more is looked at than is kept.
_MARGIN: Final = 512
# Bytes that the smallest thing needs that can stand for any value, and that are kept for saying `MORE`.
_ROOM: Final = 64
_KEPT: Final = 48

_LONGEST_KNOWN: Final = 64
_MOST_KNOWN: Final = 2_000
"""What a tool calls its parameters is the same each time: so many names, and never a value, are remembered
with what they are."""
# Of these one is in each text with the shape of a secret, in small letters. Most texts have none, and to look
# for the shapes takes twenty times as long.
_SIGNS: Final = (
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


class Masked(NamedTuple):
    """`hidden` are the JSON pointers (RFC 6901) of what is hidden, wholly or in part."""

    value: Any
    hidden: tuple[str, ...]


def masked(params: object, extra_keys: Collection[str] = ()) -> Masked:
    """A copy of what a stranger sent. `extra_keys` are further names of secrets; case and punctuation of a
    name do not matter."""
    masking = _Masking(frozenset(_bare(key) for key in extra_keys))
    return Masked(masking.copy(params), tuple(masking.hidden))


class _Masking:
    """Of one value, from its beginning to where the room ends. What lies behind that is not looked at."""

    def __init__(self, extra: frozenset[str]) -> None:
        self._extra = extra
        self._left = MOST_BYTES
        self._path: list[str] = []
        self._paths_left = MOST_PATHS_BYTES
        self.hidden: list[str] = []

    def copy(self, value: object) -> Any:
        """There is room for the smallest of it at least."""
        match value:
            case str():
                return self._text(value)
            case None | bool() | int() | float():
                return self._spend(_leaf(value))
            case Mapping() | list() | tuple() if len(self._path) >= MOST_LEVELS:
                return self._spend(f"[deeper than {MOST_LEVELS} levels]")
            case Mapping():
                return self._object(value)
            case list() | tuple():
                return self._array(value)
            case _:
                return self._spend(_leaf(value))

    def _object(self, given: Mapping[Any, Any]) -> dict[str, Any]:
        self._left -= 2 + _KEPT
        made: dict[str, Any] = {}
        names_secret = self._is_pair(given)
        for at, (key, item) in enumerate(given.items()):
            read = _name(key)
            name = _unused(read.shown, made)
            cost = _size(name) + 2
            if self._left < cost + _ROOM:
                made[_unused(MORE, made)] = f"[{len(given) - at} more]"
                return made
            self._left -= cost
            self._path.append(name)
            if self._is_secret(read, item) or (names_secret and read.bare == _VALUE):
                made[name] = self._spend(HIDDEN)
                self._hide()
            else:
                made[name] = self.copy(item)
                if read.is_hidden:
                    self._hide()
            self._path.pop()
        self._left += _KEPT
        return made

    def _array(self, given: Sequence[Any]) -> list[Any]:
        self._left -= 2 + _KEPT
        made: list[Any] = []
        for at, item in enumerate(given):
            if self._left < 1 + _ROOM:
                return [*made, f"[{len(given) - at} more]"]
            self._left -= 1
            self._path.append(str(at))
            made.append(self.copy(item))
            self._path.pop()
        self._left += _KEPT
        return made

    def _text(self, text: str) -> str:
        shown, is_hidden = _without_secrets(text)
        if is_hidden:
            self._hide()
        is_whole = len(text) <= LONGEST_TEXT + _MARGIN and len(shown) <= LONGEST_TEXT
        if is_whole and _size(shown) <= self._left:
            return str(self._spend(shown))
        note = f"… [{len(text)} characters]"
        return str(self._spend(_cut(shown[:LONGEST_TEXT], self._left - len(note.encode())) + note))

    def _spend(self, value: Any) -> Any:
        self._left -= _size(value)
        return value

    def _hide(self) -> None:
        pointer = "".join(f"/{_in_pointer(name)}" for name in self._path[:LONGEST_PATH])
        path = pointer if len(pointer) <= LONGEST_PATH else f"{pointer[:LONGEST_PATH]}{MORE}"
        if self._paths_left <= 0 or path in self.hidden[-1:]:
            return
        # The last one that has room is the mark that there were more.
        self._paths_left -= _size(path) + 1
        self.hidden.append(path if self._paths_left > 0 else MORE)

    # -- what is secret --

    def _is_secret(self, name: "_Name", item: object) -> bool:
        """A flag, or nothing, is no secret."""
        if item is None or isinstance(item, bool) or not self._names_secret(name.bare, name.is_secret):
            return False
        return not (isinstance(item, int | float) and name.bare.endswith(_COUNT))

    def _names_secret(self, bare: str, is_secret: bool) -> bool:
        return is_secret or bare in self._extra

    def _is_pair(self, given: Mapping[Any, Any]) -> bool:
        if len(given) > 10:
            return False
        names = [item for key, item in given.items() if isinstance(item, str) and _bare_key(key) in _NAMING]
        return any(self._names_secret(*_judged(name)) for name in names)


class _Name(NamedTuple):
    """Of a value. `bare` is how it is compared, `shown` what may be seen of it; `is_hidden`: not all of it
    may."""

    bare: str
    is_secret: bool
    shown: str
    is_hidden: bool


def _name(key: object) -> _Name:
    if type(key) is str and len(key) <= _LONGEST_KNOWN:
        return _known_name(key)
    return _read_name(key)


@lru_cache(_MOST_KNOWN)
def _known_name(key: str) -> _Name:
    return _read_name(key)


def _read_name(key: object) -> _Name:
    shown, is_hidden = _without_secrets(key if isinstance(key, str) else str(_leaf(key)))
    shown = shown if len(shown) <= LONGEST_KEY else f"{shown[:LONGEST_KEY]}{MORE}"
    bare, is_secret = _judged(key) if isinstance(key, str) else ("", False)
    return _Name(bare, is_secret, shown, is_hidden)


def _judged(name: str) -> tuple[str, bool]:
    """It as it is compared, and whether it names a secret wherever it stands."""
    bare = _bare(name)
    # Nobody calls anything by a name as long as that.
    is_secret = len(name) > _LONGEST_JUDGED or bare in _WHOLE or any(part in bare for part in _PARTS)
    return bare, is_secret


def _bare_key(key: object) -> str:
    if type(key) is str and len(key) <= _LONGEST_KNOWN:
        return _known_name(key).bare
    return _bare(key) if isinstance(key, str) else ""


def _bare(name: str) -> str:
    """API_KEY, api-key and apiKey are one."""
    folded = unicodedata.normalize("NFKC", name[:_LONGEST_JUDGED]).casefold()
    return "".join(filter(str.isalnum, folded))


def _unused(name: str, made: Mapping[str, Any]) -> str:
    """Two names may look alike now. Neither may hide what the other holds."""
    number, free = len(made) + 1, name
    while free in made:
        free, number = f"{name} ({number})", number + 1
    return free


def _without_secrets(text: str) -> tuple[str, bool]:
    """The beginning of it that may be shown, and whether something in there is hidden."""
    looked_at = text[: LONGEST_TEXT + _MARGIN]
    may_hold_one = _may_hold_secret(looked_at)
    if "\0" in looked_at or not looked_at.isascii():
        looked_at = _UNSENDABLE.sub("\ufffd", looked_at)
    shown = redact_text(looked_at) if may_hold_one else looked_at
    is_hidden = shown != looked_at
    if len(text) > LONGEST_TEXT + _MARGIN:
        shown = shown[: max(0, len(shown) - _MARGIN)]
    return shown, is_hidden


def _may_hold_secret(text: str) -> bool:
    """Letters that are no ASCII may stand for others in the shapes."""
    if not text.isascii():
        return True
    folded = text.lower()
    return any(sign in folded for sign in _SIGNS)


def _leaf(value: object) -> Any:
    """Matrix has integers up to 2^53, and no other numbers. What is no JSON came as an attachment."""
    match value:
        case None | bool():
            return value
        case int():
            if -_GREATEST <= value <= _GREATEST:
                return int(value)
            bits = value.bit_length()
            return str(value) if bits <= _MOST_BITS else f"[a number of {bits} bits]"
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


def _cut(text: str, most_bytes: int) -> str:
    """The longest beginning that fits: a character is one to six bytes of JSON."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) <= most_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low]
