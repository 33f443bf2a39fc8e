"""The documents: every page is reached, every link leads somewhere, generated pages are up to date."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from bridge.cli.main import app
from bridge.cli.reference import pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> list[tuple[Path, str]]:
    """Files of this repository to which a page links, each with the anchor or an empty text."""
    found = []
    for target in _LINK.findall(page.read_text("utf-8")):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, anchor))
    return found


def anchors(page: Path) -> set[str]:
    """As GitHub derives them from headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(page.read_text("utf-8"))
    }


PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "bench/README.md", ROOT / "examples/README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(target), f"{page}: {target}#{anchor}"


def test_every_page_is_reached_from_the_index() -> None:
    """Over as many links as it takes."""
    reached = {DOCS / "index.md"}
    waiting = list(reached)
    while waiting:
        for target, _ in links(waiting.pop()):
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert set(DOCS.rglob("*.md")) <= reached


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 80


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_up_to_date(name: str) -> None:
    """`make docs` writes them."""
    assert (DOCS / "reference" / name).read_text("utf-8") == pages()[name]


def test_the_help_of_every_command_has_an_example_that_it_accepts() -> None:
    """Options and arguments are parsed; nothing is run."""
    sections = re.split(r"^#+ `(palaver [^`]+)`$", pages()["commands.md"], flags=re.MULTILINE)
    for name, text in zip(sections[1::2], sections[2::2], strict=True):
        if f"    {name}" not in text:
            continue  # a group of commands
        example = re.search(rf"^Example: `({name}\b.*)`$", text, re.MULTILINE)
        assert example, name
        words = shlex.split(re.split(r" [|>] ", example[1])[0])[1:]
        command: Any = typer.main.get_command(app)
        context: Any = typer.Context(command, info_name="palaver")
        for _ in name.split()[1:]:
            found, command, words = command.resolve_command(context, words)
            context = typer.Context(command, parent=context, info_name=found)
        command.make_context(command.name, words, parent=context.parent)
