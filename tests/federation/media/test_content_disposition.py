"""The header `Content-Disposition`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.media.file_name import content_disposition, file_name_in, safe_file_name


@pytest.mark.parametrize(
    ("kind", "name", "header"),
    [
        ("image/png", "a.png", 'inline; filename="a.png"'),
        ("image/png", None, "inline"),
        ("text/html", "a b.html", 'attachment; filename="a b.html"'),
        ("image/svg+xml", "..", "attachment"),
        ("text/plain", "ü.txt", "inline; filename=\"_.txt\"; filename*=utf-8''%C3%BC.txt"),
        ("a/b", 'x"\r\ny: z', 'attachment; filename="x y z"'),
        ("a/b", "a%20'b;c", 'attachment; filename="a%20\'b;c"'),
    ],
)
def test_the_header_is_built(kind: str, name: str | None, header: str) -> None:
    """RFC 6266: a quoted ASCII name, and the complete name for clients that support it."""
    assert content_disposition(kind, name) == header


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('inline; filename="a.png"', "a.png"),
        ("inline;filename=a.png", "a.png"),
        ("attachment; filename=\"_.txt\"; filename*=UTF-8'en'%C3%BC.txt", "ü.txt"),
        ("attachment; filename*=utf-8''%C3%BC.txt; filename=b", "ü.txt"),
        ("inline; FILENAME=a", "a"),
        ('inline; filename="a\\"b"', 'a"b'),
        ('inline; filename="a;b"; x="filename=c"', "a;b"),
        ("inline; filename=a; filename=b", "a"),
        ("inline; filename*=iso-8859-1''%FC; filename=b", "ü"),
        ("inline; filename=b; filename*=broken", "b"),
        ('inline; filename="ü.txt"', "ü.txt"),
        ('inline; filename="\udcfc.txt"', "ü.txt"),
        ("inline; filename=", None),
        ("inline", None),
        ("", None),
        (None, None),
        ("inline; filename=" + "a" * 20_000, None),
    ],
)
def test_the_header_is_parsed(header: str | None, name: str | None) -> None:
    """In the forms that servers use; invalid names are ignored."""
    assert file_name_in(header) == name


def test_a_malicious_header_is_parsed_fast() -> None:
    """Without backtracking."""
    for piece in (';x="', '; filename="' + "\\", ";", ";a=", "; ", '";', "; filename*0=", ";filename*='", '\\"'):
        hostile = f'inline; filename="{piece * 4_000}'
        file_name_in(hostile)
        file_name_in(hostile[:4_096])
        file_name_in((piece * 4_000)[:4_096])


@pytest.mark.parametrize("charset", ["a\0", "none", "hex", "idna", "punycode", "utf-7", "utf-16"])
def test_an_unknown_character_set_is_ignored(charset: str) -> None:
    """Python knows more character sets than HTTP."""
    file_name_in(f"inline; filename*={charset}''%FF%5Cud800-%80a..")


@given(st.text())
def test_the_header_round_trips(name: str) -> None:
    """For any name."""
    header = content_disposition("image/png", name)
    assert header.isascii()
    assert header.isprintable()
    assert file_name_in(header) == safe_file_name(name)


@given(st.text())
def test_any_header_is_parsed(header: str) -> None:
    """Without an exception."""
    file_name_in(header)
