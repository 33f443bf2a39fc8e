"""Checks of single fields of EDUs."""

import pytest

from federation.transactions.edus import (
    InvalidEdu,
    is_event_id_text,
    is_natural,
    is_user_of,
    optional_object,
    require_integer,
    require_room_id,
    require_text,
    require_user,
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
def test_the_domain_of_a_user_must_be_the_sending_server(user: object, belongs: bool) -> None:
    """In all EDUs the user's domain must equal the origin."""
    assert is_user_of("b.example", user) is belongs
    if not belongs:
        with pytest.raises(InvalidEdu, match="user_id"):
            require_user("b.example", {"user_id": user}, "user_id")


@pytest.mark.parametrize("value", [True, -1, 1.0, "1", None, 2**53, [1]])
def test_invalid_integers_are_refused(value: object) -> None:
    """Booleans, negative numbers and integers beyond canonical JSON's range are invalid."""
    assert not is_natural(value)
    with pytest.raises(InvalidEdu, match="n is not a non-negative integer"):
        require_integer({"n": value}, "n")


def test_the_range_of_integers() -> None:
    """It goes from zero to the largest integer of canonical JSON."""
    assert require_integer({"n": 0}, "n") == 0
    assert require_integer({"n": 2**53 - 1}, "n") == 2**53 - 1


@pytest.mark.parametrize("value", ["with\0nul", "x" * 256, 1, None])
def test_strings_with_nul_and_long_strings_are_refused(value: object) -> None:
    """Postgres stores no NUL, and identifiers have at most 255 bytes."""
    with pytest.raises(InvalidEdu, match="t is not"):
        require_text({"t": value}, "t")
    assert require_text({"t": "x" * 255}, "t") == "x" * 255


def test_rooms_events_and_objects_are_checked() -> None:
    """A required field of the wrong type is refused; an optional one counts as missing."""
    assert require_room_id({"r": "!a:b.example"}, "r") == "!a:b.example"
    with pytest.raises(InvalidEdu, match="r is not a room id"):
        require_room_id({"r": ["!a:b.example"]}, "r")
    assert is_event_id_text("$e")
    assert not is_event_id_text({})
    assert optional_object({"o": {}}, "o") == {}
    assert optional_object({"o": []}, "o") is None
