"""What agents write, as HTML."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.markdown import to_html

ALLOWED = {"p", "br", "strong", "em", "code", "pre", "ul", "ol", "li", "blockquote", "a"}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb\n\nc", "<p>a<br>b</p><p>c</p>"),
        ("# A *b*\ntext", "<p><strong>A <em>b</em></strong></p><p>text</p>"),
        ("#no heading", "<p>#no heading</p>"),
        ("a\n---\nb", "<p>a</p><p>———</p><p>b</p>"),
        ("> a\n> b\nc", "<blockquote><p>a<br>b</p></blockquote><p>c</p>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("1. a\n2) b", "<ol><li>a</li><li>b</li></ol>"),
        ("- a\n  - b\n    c\n- d", "<ul><li>a<ul><li>b<br>c</li></ul></li><li>d</li></ul>"),
        ("- a\n\n  more\n- b", "<ul><li>a<p>more</p></li><li>b</li></ul>"),
        ("- a\n1. b", "<ul><li>a</li></ul><ol><li>b</li></ol>"),
        (
            "```python\nx < 1\n  # *y*\n```\nz",
            '<pre><code class="language-python">x &lt; 1\n  # *y*</code></pre><p>z</p>',
        ),
        ("````\n```\n````", "<pre><code>```</code></pre>"),
        ("~~~\na", "<pre><code>a</code></pre>"),
        ('```"><script>\na\n```', '<pre><code class="language-script">a</code></pre>'),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre><code>| a | b |\n|---|---|\n| 1 | 2 |</code></pre>"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("", ""),
    ],
)
def test_blocks(text: str, html: str) -> None:
    """Paragraphs, headings, quotes, lists, code; a table is shown as it was written."""
    assert str(to_html(text)) == html


class Read(HTMLParser):
    """What a client finds in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attributes))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


MARKS = "> - * _ ` # | [ ] ( ) < > \\ ! 1. ~ & \" ' / : = ``` ** <script> </p> <!-- --> <a href= javascript:"
ADDRESSES = ["https://x.org", "matrix.to/", "](https://matrix.to/#/@a:b.c)", "](https://e.org)"]
PIECES = st.sampled_from([*MARKS.split(), "a", "\n", "  ", "<img src=x onerror=y>", *ADDRESSES])


@given(st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=60))
def test_nothing_gets_through_but_what_is_put_there(pieces: list[str]) -> None:
    """Whatever an agent writes: the tags are ours, they are closed, and the only attributes are a language
    and an address that is safe."""
    read = Read(str(to_html("".join(pieces))))
    assert read.open == []
    for tag, attributes in read.tags:
        assert tag in ALLOWED
        for name, value in attributes:
            assert value is not None
            if tag == "code":
                assert name == "class"
                assert value.startswith("language-")
            else:
                assert (tag, name) == ("a", "href")
                assert value.lower().startswith(("https://", "http://", "mailto:"))
                assert "matrix.to/" not in value.lower()


@pytest.mark.parametrize(
    "hostile",
    [
        *(
            mark * 30_000
            for mark in ("> ", "- ", "[", "`", "*a ", "# ", ".-", "matrix:", "|", "<", "*a**b_c")
        ),
        "-" * 60_000 + "x",
        "#a" + " #" * 30_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_takes_no_longer_than_other(hostile: str) -> None:
    """Not the square of it: the test would not end."""
    Read(str(to_html(hostile)))
