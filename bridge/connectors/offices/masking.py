"""What a tool is called with, as a room may hold it: without secrets, and no larger than an event can bear.

What names a secret loses its value, whatever that is; what looks like one by its shape, in any text, loses
that part. What is left out otherwise says so in its place: people decide by what they see here.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from bridge.log_redaction import HIDDEN, redact_text

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
# A URL may begin at each of these letters, and each time the run is gone through in search of its colon.
_RUN: Final = re.compile(r"[a-z0-9+.\-]{65,}", re.IGNORECASE)
_BEGINNING: Final = re.compile(r"[+.\-][a-z]", re.IGNORECASE)
_LONGEST_RUN: Final = 64
_MOST_BEGINNINGS: Final = 16
# Bytes that the smallest thing needs that can stand for any value, and that are kept for saying `MORE`.
_ROOM: Final = 64
_KEPT: Final = 48


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
        is_container = isinstance(value, Mapping | list | tuple)
        if is_container and len(self._path) >= MOST_LEVELS:
            return self._spend(f"[deeper than {MOST_LEVELS} levels]")
        match value:
            case Mapping():
                return self._object(value)
            case list() | tuple():
                return self._array(value)
            case str():
                return self._text(value)
            case _:
                return self._spend(_leaf(value))

    def _object(self, given: Mapping[Any, Any]) -> dict[str, Any]:
        self._left -= 2 + _KEPT
        made: dict[str, Any] = {}
        names_secret = self._is_pair(given)
        for at, (key, item) in enumerate(given.items()):
            shown, is_hidden = _shown_key(key)
            name = _unused(shown, made)
            cost = _size(name) + 2
            if self._left < cost + _ROOM:
                made[_unused(MORE, made)] = f"[{len(given) - at} more]"
                return made
            self._left -= cost
            self._path.append(name)
            if self._is_secret(key, item) or (names_secret and _bare(key) == _VALUE):
                made[name] = self._spend(HIDDEN)
                self._hide()
            else:
                made[name] = self.copy(item)
                if is_hidden:
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

    def _is_secret(self, key: object, item: object) -> bool:
        """A flag, or nothing, is no secret."""
        if item is None or isinstance(item, bool) or not self._names_secret(key):
            return False
        return not (isinstance(item, int | float) and _bare(key).endswith(_COUNT))

    def _names_secret(self, key: object) -> bool:
        if isinstance(key, str) and len(key) > _LONGEST_JUDGED:
            return True  # nobody calls anything so
        bare = _bare(key)
        return bare in _WHOLE or bare in self._extra or any(part in bare for part in _PARTS)

    def _is_pair(self, given: Mapping[Any, Any]) -> bool:
        if len(given) > 10:
            return False
        names = [item for key, item in given.items() if isinstance(item, str) and _bare(key) in _NAMING]
        return any(map(self._names_secret, names))


def _bare(key: object) -> str:
    """A name as it is compared: API_KEY, api-key and apiKey are one."""
    if not isinstance(key, str):
        return ""
    folded = unicodedata.normalize("NFKC", key[:_LONGEST_JUDGED]).casefold()
    return "".join(filter(str.isalnum, folded))


def _shown_key(key: object) -> tuple[str, bool]:
    text = key if isinstance(key, str) else str(_leaf(key))
    shown, is_hidden = _without_secrets(text)
    return (shown if len(shown) <= LONGEST_KEY else f"{shown[:LONGEST_KEY]}{MORE}"), is_hidden


def _unused(name: str, made: Mapping[str, Any]) -> str:
    """Two names may look alike now. Neither may hide what the other holds."""
    number, free = len(made) + 1, name
    while free in made:
        free, number = f"{name} ({number})", number + 1
    return free


def _without_secrets(text: str) -> tuple[str, bool]:
    """The beginning of it that may be shown, and whether something in there is hidden."""
    looked_at = _UNSENDABLE.sub("\ufffd", text[: LONGEST_TEXT + _MARGIN])
    looked_at = _RUN.sub(_shorter_run, looked_at)
    shown = redact_text(looked_at)
    is_hidden = shown != looked_at
    if len(text) > LONGEST_TEXT + _MARGIN:
        shown = shown[: max(0, len(shown) - _MARGIN)]
    return shown, is_hidden


def _shorter_run(found: re.Match[str]) -> str:
    """Nobody writes one with so many beginnings, unless to keep us busy. Without a blank in it a secret of
    which it is a part keeps its shape."""
    run = found[0]
    if len(_BEGINNING.findall(run)) <= _MOST_BEGINNINGS:
        return run
    return f"{run[:_LONGEST_RUN]}…[{len(run) - _LONGEST_RUN}-more]"


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
