"""What the readers of a stream have in common."""

from federation.stream_tail import Entry, StreamTail


def entries(*positions: int, weight: int = 1) -> list[Entry[str]]:
    return [Entry(position, weight, str(position)) for position in positions]


def test_a_reader_finds_what_follows_its_position() -> None:
    """As many as it asks for, in their order; nothing where nobody has read yet."""
    tail: StreamTail[str] = StreamTail(10)
    tail.add(entries(2, 3, 7), 9)
    assert tail.end == 9
    assert tail.after(0, 2) == ["2", "3"]
    assert tail.after(3, 2) == ["7"]
    assert tail.after(9, 2) == []


def test_it_begins_where_everything_behind_is_known() -> None:
    """Who is before that has to read elsewhere. It never goes back."""
    tail: StreamTail[str] = StreamTail(10)
    tail.begin_at(5)
    assert (tail.begin, tail.end) == (5, 5)
    tail.add(entries(6, 8), 8)
    tail.begin_at(6)
    assert (tail.begin, tail.after(6, 9)) == (6, ["8"])
    tail.begin_at(1)
    assert tail.begin == 6
    tail.begin_at(20)
    assert (tail.end, tail.after(20, 9)) == (20, [])


def test_what_is_too_heavy_is_forgotten_from_the_beginning() -> None:
    """Even if that is all of it; the end stays where it was."""
    tail: StreamTail[str] = StreamTail(10)
    tail.add(entries(1, 2, 3, weight=4), 3)
    assert (tail.begin, tail.after(1, 9)) == (1, ["2", "3"])
    tail.add(entries(4, weight=11), 4)
    assert (tail.begin, tail.end) == (4, 4)
