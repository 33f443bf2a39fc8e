"""File names of uploads."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.media.file_name import MAX_BYTES, safe_file_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a.png", "a.png"),
        ("Grüße aus Köln.txt", "Grüße aus Köln.txt"),
        ("日本.txt", "日本.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        ("/", None),
        ("..", None),
        (".", None),
        ("", None),
        (None, None),
        (".bashrc", "bashrc"),
        ("a.exe . ", "a.exe"),
        ("a\r\nSet-Cookie: x=1", "a Set-Cookie x=1"),
        ("a\0.png", "a .png"),
        ('a";filename="b.exe', "a ;filename= b.exe"),
        ("a\u202egnp.exe", "a gnp.exe"),
        ("a\u2028b\u200b\ufeff", "a b"),
        ("\ud800x", "x"),
        ("\ue000\U0010ffff", None),
        ("u\u0308.txt", "ü.txt"),
        ("  a \t b  ", "a b"),
        ("COM1|<>:*?", "COM1"),
    ],
)
def test_names_are_sanitised(name: str | None, safe: str | None) -> None:
    """No directories, hidden files, line breaks or direction controls."""
    assert safe_file_name(name) == safe


def test_a_long_name_keeps_its_suffix() -> None:
    """It is cut at a character boundary."""
    safe = safe_file_name("ä" * 200 + ".jpeg")
    assert safe is not None
    assert safe.endswith("ä.jpeg")
    assert MAX_BYTES - 1 <= len(safe.encode()) <= MAX_BYTES
    assert safe_file_name("a" * 300) == "a" * MAX_BYTES
    assert safe_file_name("a." + "b" * 300) == ("a." + "b" * 300)[:MAX_BYTES]


def test_only_the_end_of_a_huge_name_is_examined() -> None:
    """Of ten megabytes."""
    assert safe_file_name("a/" * 5_000_000 + "b.txt") == "b.txt"
    assert safe_file_name("../" * 3_000_000) is None


@given(st.text())
def test_any_name_is_sanitised_or_none(name: str) -> None:
    """Sanitising is idempotent."""
    safe = safe_file_name(name)
    if safe is not None:
        assert 0 < len(safe.encode()) <= MAX_BYTES
        assert not set(safe) & set('/\\"<>|:*?')
        assert safe == safe.strip(" .")
        assert all(unicodedata.category(one)[0] != "C" for one in safe)
        assert safe_file_name(safe) == safe
