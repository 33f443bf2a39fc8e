"""The files and functions named in docs/architecture.md exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.source import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PATH = re.compile(r"(?:bridge|appservice|federation|storage|migrations|tests|docs)/[\w./]+")
CODE = re.compile(r"`([^`\n]+)`")
# What stands between a file and the names in it.
BETWEEN = re.compile(r"\s*|,\s*|\s+and\s+")


def references() -> list[tuple[str, str | None]]:
    """Return the paths, and the names that follow the path of their file."""
    found: list[tuple[str, str | None]] = []
    file, end = "", 0
    for match in CODE.finditer(re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)):
        text = match[1]
        if PATH.fullmatch(text):
            file, end = text, match.end()
            found.append((text, None))
        elif file.endswith(".py") and BETWEEN.fullmatch(match.string[end : match.start()]):
            end = match.end()
            found.append((file, text))
        else:
            assert not re.fullmatch(r"_?[A-Z][a-z]\w*\.\w+", text), f"{text} follows no file"
            file = ""
    return found


REFERENCES = references()


def names(path: Path) -> set[str]:
    """Return the functions, classes, methods and constants of a file."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize(("file", "name"), REFERENCES, ids=lambda value: value or "")
def test_named_files_and_functions_exist(file: str, name: str | None) -> None:
    """Each file, and each function or class after its file."""
    path = ROOT / file
    assert path.exists()
    if name is not None:
        assert name in names(path)


def test_the_walk_covers_all_packages() -> None:
    """It names functions, not only files, and all packages of the homeserver and of the bridge."""
    assert sum(name is not None for _, name in REFERENCES) > 30
    packages = {
        str(path.parent.relative_to(ROOT))
        for package in ("appservice", "bridge", "federation")
        for path in (ROOT / package).glob("*/__init__.py")
    }
    assert packages <= {file for file, _ in REFERENCES}


@pytest.mark.parametrize(("file", "class_"), [("description.py", "Description"), ("interface.py", "Connector")])
def test_the_recipe_of_a_connector_is_complete(file: str, class_: str) -> None:
    """CONTRIBUTING.md, "A connector", names all capabilities."""
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("**A connector**")[2]
    named = set(CODE.findall(recipe.partition("\n**")[0]))
    tree = ast.parse((ROOT / "bridge" / "connectors" / file).read_text("utf-8"))
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_]
    members = {
        node.target.id for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    members |= {node.name for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert members <= named
