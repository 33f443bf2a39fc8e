"""Text within a line as agents write it."""

import pytest

from bridge.people.inline_markdown import inline


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain <b>&\"'", "plain &lt;b&gt;&amp;&quot;&#x27;"),
        (
            "**a** and *b* and __c__ and _d_",
            "<strong>a</strong> and <em>b</em> and <strong>c</strong> and <em>d</em>",
        ),
        ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
        ("snake_case_name and __init__.py", "snake_case_name and <strong>init</strong>.py"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("*not closed", "*not closed"),
        ("**", "**"),
        ("****", "****"),
        ("`a <b> *c*`", "<code>a &lt;b&gt; *c*</code>"),
        ("`` a`b ``", "<code>a`b</code>"),
        ("`not closed", "`not closed"),
        (r"\*not\* \\ \q", r"*not* \ \q"),
        ("a\\", "a\\"),
        ("a\nb", "a<br>b"),
    ],
)
def test_code_and_emphasis(text: str, html: str) -> None:
    """And whatever looks like them and is none stays as it is."""
    assert str(inline(text)) == html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "[docs](https://example.org/a?b=1&c)",
            'docs (<a href="https://example.org/a?b=1&amp;c">https://example.org/a?b=1&amp;c</a>)',
        ),
        ("<https://example.org>", '<a href="https://example.org">https://example.org</a>'),
        (
            "![picture](https://example.org/x.png)",
            'picture (<a href="https://example.org/x.png">https://example.org/x.png</a>)',
        ),
        ("[x](javascript:alert)", "x (javascript:alert)"),
        ("[x](data:text/html,y)", "x (data:text/html,y)"),
        (
            '[x](https://a.org"onclick="b)',
            'x (<a href="https://a.org&quot;onclick=&quot;b">https://a.org&quot;onclick=&quot;b</a>)',
        ),
        ("[only text]", "[only text]"),
        ("[a] (b)", "[a] (b)"),
    ],
)
def test_a_link_shows_where_it_leads(text: str, html: str) -> None:
    """Nothing else is a link, and no picture is fetched."""
    assert str(inline(text)) == html


@pytest.mark.parametrize(
    "text",
    [
        "[Alice](https://matrix.to/#/@alice:example.org)",
        "<https://matrix.to/#/@alice:example.org>",
        "https://matrix.to/#/@alice:example.org",
        "matrix.to/#/#room:example.org",
        "HTTPS://MATRIX.TO/#/@a:b.c",
        "[x](matrix:u/alice:example.org)",
        "**see matrix:r/room:example.org**",
        "[matrix:u/alice:example.org](https://example.org)",
    ],
)
def test_a_link_into_matrix_is_none(text: str) -> None:
    """Clients make pills of them, which look like a call."""
    html = str(inline(text))
    assert "<code>" in html
    for link in ("matrix.to", "matrix:"):
        assert f'href="{link}' not in html.lower().replace("https://", "")
