"""A connector is a package and a line of the registry. The rest of the bridge knows the capabilities of
connectors, but no connector by name."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import ROOT, Module, modules

CONNECTORS = sorted(path.parent.name for path in ROOT.glob("bridge/connectors/*/description.py"))
REGISTRY = "bridge.connectors.registry"
# Which put a node together, carry out what operators ask, and show what happens.
NEUTRAL = re.compile(
    r"bridge\.(run|(approvals|control|node|observability|tasks)(\.\w+)*"
    r"|cli\.(main|audit|doctor|portals|run))"
)
# Names of connectors that modules hold all the same. This list shrinks; it does not grow.
EXCEPTIONS: dict[str, set[str]] = {}


def _of(module: Module) -> str | None:
    """Return the connector to whose package a module belongs."""
    parts = module.name.split(".")
    return parts[2] if parts[:2] == ["bridge", "connectors"] and parts[2:3] and parts[2] in CONNECTORS else None


def test_each_connector_has_a_description() -> None:
    """In its package."""
    assert {"cis", "offices"} <= set(CONNECTORS)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_only_the_registry_imports_a_connector(module: Module) -> None:
    """And only its description; no connector imports another one."""
    for name in module.imports():
        parts = name.split(".")
        if parts[:2] != ["bridge", "connectors"] or parts[2] not in CONNECTORS or parts[2] == _of(module):
            continue
        assert module.name == REGISTRY, name
        assert parts[3] == "description", name


@pytest.mark.parametrize(
    "module", [one for one in modules() if NEUTRAL.fullmatch(one.name)], ids=lambda module: module.name
)
def test_shared_code_names_no_connector(module: Module) -> None:
    """Neither in an identifier nor in a text."""
    named = {word for text in _texts(module.tree()) for word in _words(text) if word in _names()}
    assert named == EXCEPTIONS.get(module.name, set())


def test_the_exceptions_exist() -> None:
    """An exception for a removed module is removed with it."""
    assert {module.name for module in modules()} >= set(EXCEPTIONS)


def _names() -> set[str]:
    """Return the patterns of connector names."""
    return {*CONNECTORS, *(name.removesuffix("s") for name in CONNECTORS if name != "cis")}


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)]


def _texts(tree: ast.Module) -> Iterator[str]:
    """Return identifiers and strings, without comments and docstrings."""
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield name
                yield other or ""
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                yield text
