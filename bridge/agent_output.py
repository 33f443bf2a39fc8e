"""What a process has written, of which no more is kept than is wanted: the beginning and the end.

The beginning says what it was about, and the end how it came out. What is cut goes by bytes; where the cut
falls into a character, that character is left out.
"""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """`total` counts the bytes that were written."""

    text: str
    total: int
    left_out: int


class Output:
    """At most `most` bytes, taken in as they come."""

    def __init__(self, most: int) -> None:
        assert most > 0, "somebody will want to read it"
        self._head_room = most - most // 2
        self._tail_room = most // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if room := self._head_room - len(self._head):
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        # A whole piece goes when those behind it are enough.
        while self._tail_size - len(self._tail[0]) >= self._tail_room and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    def kept(self) -> Kept:
        """Invalid UTF-8 is replaced."""
        tail = b"".join(self._tail)
        if len(tail) > self._tail_room:
            tail = tail[len(tail) - self._tail_room :]
        left_out = self.total - len(self._head) - len(tail)
        if not left_out:
            return Kept((self._head + tail).decode("utf-8", "replace"), self.total, 0)
        head = _without_beginning_of_character(bytes(self._head))
        tail = _without_end_of_character(tail)
        left_out = self.total - len(head) - len(tail)
        notice = f"\n[… {left_out} bytes are left out here …]\n"
        text = head.decode("utf-8", "replace") + notice + tail.decode("utf-8", "replace")
        return Kept(text, self.total, left_out)


def _without_beginning_of_character(data: bytes) -> bytes:
    """Without a last character of which bytes are missing."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # it goes on one
            continue
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if length > back else data
    return data


def _without_end_of_character(data: bytes) -> bytes:
    """Without bytes at the beginning that go on a character whose beginning is missing."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:]
