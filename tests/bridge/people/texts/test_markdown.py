"""Markdown of agents as HTML."""

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.texts.agent_output import to_html

ALLOWED = {"p", "br", "strong", "em", "code", "pre", "ul", "ol", "li", "blockquote", "a"}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb\n\nc", "<p>a<br>b</p>\n<p>c</p>"),
        ("# A *b*\ntext", "<p><strong>A <em>b</em></strong></p><p>text</p>"),
        ("#no heading", "<p>#no heading</p>"),
        ("a\n---\nb", "<p>a</p>\n<p>———</p><p>b</p>"),
        ("> a\n> b\n\nc", "<blockquote>\n<p>a<br>b</p>\n</blockquote>\n<p>c</p>"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"),
        ("2. a\n3. b", '<ol start="2">\n<li>a</li>\n<li>b</li>\n</ol>'),
        ("- a\n  - b", "<ul>\n<li>a\n<ul>\n<li>b</li>\n</ul>\n</li>\n</ul>"),
        (
            "```python\nx < 1\n  # *y*\n```\nz",
            '<pre><code class="language-python">x &lt; 1\n  # *y*\n</code></pre>\n<p>z</p>',
        ),
        ("~~~\na", "<pre><code>a</code></pre>"),
        ('```"><script>\na\n```', "<pre><code>a\n</code></pre>"),
        ("a\n| b |\n|---|\n| 1 |", "<p>a</p>\n<pre><code>| b |\n|---|\n| 1 |</code></pre>"),
        ("- | a |\n  | b |", "<ul>\n<li>\n<pre><code>| a |\n| b |</code></pre>\n</li>\n</ul>"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("<!-- a -->", "<p>&lt;!-- a --&gt;</p>"),
        ("[ERROR]: timeout", "<p>[ERROR]: timeout</p>"),
        ("", ""),
    ],
)
def test_blocks_are_rendered(text: str, html: str) -> None:
    """Paragraphs, headings, quotes, lists and code. A table is shown as code."""
    assert str(to_html(text)) == html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain <b>&\"'", "plain &lt;b&gt;&amp;\"'"),
        ("**a** and *b* and __c__ and _d_", "<strong>a</strong> and <em>b</em> and <strong>c</strong> and <em>d</em>"),
        ("snake_case_name and __init__.py", "snake_case_name and <strong>init</strong>.py"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("*not closed", "*not closed"),
        ("`a <b> *c*`", "<code>a &lt;b&gt; *c*</code>"),
        (r"\*not\* \\ \q", r"*not* \ \q"),
        ("&lt; &#x202e;", "&amp;lt; &amp;#x202e;"),
    ],
)
def test_code_and_emphasis_are_rendered(text: str, html: str) -> None:
    """Entities are shown as text, because they could be invisible characters."""
    assert str(to_html(text)) == f"<p>{html}</p>"


def a(address: str) -> str:
    return f'<a href="{address}">{address}</a>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[docs](https://example.org/a?b=1&c)", f"docs ({a('https://example.org/a?b=1&amp;c')})"),
        ("[*a* b](https://example.org)", f"<em>a</em> b ({a('https://example.org')})"),
        ("[https://e.org](https://e.org)", a("https://e.org")),
        ("[](https://e.org)", a("https://e.org")),
        ("<https://e.org/%E2%80%AE>", a("https://e.org/%E2%80%AE")),
        ("[https://bank.org](https://e.org)", f"https://bank.org ({a('https://e.org')})"),
        ("![picture](https://example.org/x.png)", f"picture ({a('https://example.org/x.png')})"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("[x](data:text/html,y)", "[x](data:text/html,y)"),
        ("[x](ftp://e.org)", "x (ftp://e.org)"),
        ("[x](docs/a.md)", "x (docs/a.md)"),
        ('[x](https://a.org"onclick="b)', f"x ({a('https://a.org%22onclick=%22b')})"),
        ("[only text]", "[only text]"),
    ],
)
def test_a_link_shows_its_address(text: str, html: str) -> None:
    """Other text is not a link, and images are not loaded."""
    assert str(to_html(text)) == f"<p>{html}</p>"


@pytest.mark.parametrize(
    "text",
    [
        "[Alice](https://matrix.to/#/@alice:example.org)",
        "<https://matrix.to/#/@alice:example.org>",
        "https://matrix.to/#/@alice:example.org",
        r"https://matrix\.to/#/@alice:example.org",
        "![x](https://matrix.to/#/@alice:example.org)",
        "matrix.to/#/#room:example.org",
        "HTTPS://MATRIX.TO/#/@a:b.c",
        "[x](matrix:u/alice:example.org)",
        "**see matrix:r/room:example.org**",
        "[matrix:u/alice:example.org](https://example.org)",
        "> " * 50 + "https://matrix.to/#/@alice:example.org",
    ],
)
def test_matrix_links_are_code(text: str) -> None:
    """Clients would turn them into pills, which look like mentions."""
    html = str(to_html(text))
    assert "<code>" in html
    for link in ("matrix.to", "matrix:"):
        assert f'href="{link}' not in html.lower().replace("https://", "")


@pytest.mark.parametrize("text", ["> " * 50 + "a", "- " * 50 + "a", f"{'*' * 100}a{'*' * 100}"])
def test_deeply_nested_text_is_shown_as_plain_text(text: str) -> None:
    """Nothing of the text is lost."""
    assert unescape(str(to_html(text))) == text


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
def test_the_html_is_safe_for_any_text(pieces: list[str]) -> None:
    """Only known tags, all of them closed, with a language as the only attribute besides links."""
    read = Read(str(to_html("".join(pieces))))
    assert read.open == []
    for tag, attributes in read.tags:
        assert tag in ALLOWED
        for name, value in attributes:
            assert value is not None
            if tag == "code":
                assert name == "class"
                assert value.startswith("language-")
            elif tag == "ol":
                assert name == "start"
                assert value.isdecimal()
            else:
                assert (tag, name) == ("a", "href")
                assert value.lower().startswith(("https://", "http://", "mailto:"))
                assert "matrix.to/" not in value.lower()


@pytest.mark.parametrize(
    "hostile",
    [
        *(
            mark * 30_000
            for mark in (
                *("> ", "- ", "[", "`", "*a ", "# ", ".-", "matrix:", "|", "<", "*a**b_c", "![", "[]"),
                *("![a](", "[a](", "[](a)", "<a:", "\n> - ", "``a`", "| a |\n", "1. ", "- a\n", "~~~\n", "\\", "&"),
            )
        ),
        "-" * 60_000 + "x",
        "#a" + " #" * 30_000,
        "![" * 15_000 + "](a)" * 15_000,
    ],
    ids=lambda text: text[:8],
)
def test_the_time_is_linear_for_hostile_text(hostile: str) -> None:
    """With quadratic time the test would not end."""
    Read(str(to_html(hostile)))
