"""Formats an agent's output for people: Markdown as sanitised HTML, and long output as a file with its
beginning in the message.

HTML in the Markdown is shown as text, links show their address, and Matrix links are shown as code.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from bridge.people.texts.text import Text, beginning, clean, concatenate
from federation.matrix.message_content import Html, code, italic, link, paragraph, sanitise

MAX_NESTING: Final = 20
"""Maximum nesting of tags. Text with a deeper nesting is shown as plain text."""

# Clients turn these addresses into pills, which look like mentions. They do not in code.
_MATRIX: Final = re.compile(r"(?:https?://)?(?:www\.)?matrix\.to/\S*|\bmatrix:\S+", re.IGNORECASE)


def to_html(text: str) -> Html:
    """Render Markdown. `text` must have been cleaned; the time is linear in its length."""
    tokens = _MARKDOWN.parse(text)
    if any(_depth(token) > MAX_NESTING for token in tokens):
        return _plain(text)
    return sanitise(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}).strip())


def _depth(token: Token) -> int:
    return token.level + max((child.level for child in token.children or ()), default=0)


def _plain(text: str) -> Html:
    parts: list[Html] = []
    end = 0
    for found in _MATRIX.finditer(text):
        parts += Html(text[end : found.start()]), code(found[0])
        end = found.end()
    return concatenate([*parts, Html(text[end:])])


def _address(address: str) -> str:
    return str(code(address) if _MATRIX.search(address) else link(address, address))


# -- rules for parsing --


class _Markdown(MarkdownIt):
    def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - the library's name
        """The text of `<https://…>`. It is not decoded, because it could contain characters that `clean`
        removes."""
        return self.normalizeLink(link)


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Render tables as code: in a monospaced font the columns are aligned."""
    row = start
    while row < end and state.sCount[row] >= state.blkIndent and not state.is_code_block(row):
        line = state.src[state.bMarks[row] + state.tShift[row] : state.eMarks[row]].strip()
        if len(line) < 2 or not line[0] == line[-1] == "|":
            break
        row += 1
    if row > start and not silent:
        token = state.push("code_block", "code", 0)
        token.content = state.getLines(start, row, state.blkIndent, False)
        token.map = [start, row]
        state.line = row
    return row > start


# -- rules for rendering; the library passes itself, the tokens and the index of a token --


def _link_open(renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    address, inner = str(tokens[at].attrGet("href")), tokens[at + 1]
    close = next(token for token in tokens[at:] if token.type == "link_close")
    if inner is close or (inner.type == "text" and inner.content == address):
        inner.content, close.content = "", _address(address)
    else:
        close.content = f" ({_address(address)})"
    return ""


def _image(renderer: Any, tokens: Sequence[Token], at: int, *rest: object) -> str:
    alternative = renderer.renderInlineAsText(tokens[at].children, *rest)
    return f"{_plain(alternative)} ({_address(str(tokens[at].attrGet('src')))})"


def _markdown() -> MarkdownIt:
    made = _Markdown("commonmark", {"html": False, "maxNesting": MAX_NESTING + 2})
    # Decoded entities could be characters that `clean` removes. Definitions of references would not be shown.
    made.disable(["entity", "reference", "lheading", "html_block", "html_inline"])
    made.block.ruler.before("fence", "table_of_text", _table, {"alt": ["paragraph", "blockquote"]})
    for name, rule in {
        "text": lambda renderer, tokens, at, *rest: str(_plain(tokens[at].content)),
        "softbreak": lambda *rest: "<br>",
        "hr": lambda *rest: "<p>———</p>",
        "heading_open": lambda *rest: "<p><strong>",
        "heading_close": lambda *rest: "</strong></p>",
        "link_open": _link_open,
        "link_close": lambda renderer, tokens, at, *rest: tokens[at].content,
        "image": _image,
    }.items():
        made.add_render_rule(name, rule)
    return made


_MARKDOWN: Final = _markdown()


LONGEST: Final = 6_000
MAX_LINES: Final = 80
"""Maximum characters and lines of a message. Longer output would push other messages out of sight."""
LONGEST_BEGINNING: Final = 2_000
BEGINNING_LINES: Final = 25

_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file with the complete output of an agent."""

    name: str
    content: bytes = field(repr=False)
    content_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class FormattedOutput:
    """An agent's output as text, and as a file if it is long."""

    text: Text
    file: OutputFile | None = None


def format_output(output: str, name: str) -> FormattedOutput:
    """Format the output. The file's name is derived from `name`."""
    whole = clean(output).strip("\n").rstrip()
    if len(whole) <= LONGEST and whole.count("\n") < MAX_LINES:
        return FormattedOutput(Text(whole, to_html(whole)))
    shown = beginning(whole, BEGINNING_LINES, LONGEST_BEGINNING).rstrip()
    lines = whole.count("\n") + 1
    note = f"[…] The complete answer is in the file below: {lines} lines, {len(whole)} characters."
    text = Text(f"{shown}\n\n{note}", to_html(shown) + paragraph(italic(note)))
    return FormattedOutput(text, OutputFile(file_name(name), whole.encode()))


def file_name(name: str) -> str:
    """Return a valid file name: not a path, not hidden and not empty."""
    kept = _NAME.sub("-", name).strip(".-")[:_LONGEST_NAME]
    return f"{kept or 'answer'}.txt"
