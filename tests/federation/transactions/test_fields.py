"""What the readers of EDUs ask of single fields."""

import pytest

from federation.transactions.edu_values import (
    Unreadable,
    belongs_to,
    integer_in,
    is_event,
    is_natural,
    optional_object,
    room_in,
    text_in,
    user_of,
)


@pytest.mark.parametrize(
    ("user", "belongs"),
    [
        ("@bob:b.example", True),
        ("@bob:b.example:8448", False),
        ("@bob:a.example", False),
        ("bob:b.example", False),
        ("@bob", False),
        (None, False),
        (["@bob:b.example"], False),
    ],
)
def test_a_user_belongs_to_the_server_that_its_id_names(user: object, belongs: bool) -> None:
    """In all EDUs the user's domain must equal the origin."""
    assert belongs_to("b.example", user) is belongs
    if not belongs:
        with pytest.raises(Unreadable, match="user_id"):
            user_of("b.example", {"user_id": user}, "user_id")


@pytest.mark.parametrize("value", [True, -1, 1.0, "1", None, 2**53, [1]])
def test_what_is_no_natural_number(value: object) -> None:
    """`true` is no number, and what canonical JSON cannot hold is none either."""
    assert not is_natural(value)
    with pytest.raises(Unreadable, match="n is not an integer"):
        integer_in({"n": value}, "n")


def test_a_natural_number() -> None:
    """Zero is one, and so is the largest integer of canonical JSON."""
    assert integer_in({"n": 0}, "n") == 0
    assert integer_in({"n": 2**53 - 1}, "n") == 2**53 - 1


@pytest.mark.parametrize("value", ["with\0nul", "x" * 256, 1, None])
def test_a_text_that_no_column_holds(value: object) -> None:
    """NUL and overlong texts are refused where they come in."""
    with pytest.raises(Unreadable, match="t is not"):
        text_in({"t": value}, "t")
    assert text_in({"t": "x" * 255}, "t") == "x" * 255


def test_rooms_events_and_objects() -> None:
    """Of other types than they should be they are refused, or absent where they may be."""
    assert room_in({"r": "!a:b.example"}, "r") == "!a:b.example"
    with pytest.raises(Unreadable, match="r is not a room id"):
        room_in({"r": ["!a:b.example"]}, "r")
    assert is_event("$e")
    assert not is_event({})
    assert optional_object({"o": {}}, "o") == {}
    assert optional_object({"o": []}, "o") is None
