"""Design, rule 1: a module decides or it does I/O."""

import ast
import sys

import pytest

from tests.house.source import ROOT, Module, modules

# What a module that decides may import, and nothing else.
STANDARD_LIBRARY = {
    "abc", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "difflib", "enum", "fnmatch", "fractions", "functools", "hashlib", "heapq", "hmac",
    "html", "importlib.resources", "ipaddress", "itertools", "json", "math", "operator", "pathlib",
    "re", "string", "struct", "textwrap", "tomllib", "types", "typing", "unicodedata", "urllib.parse",
    "uuid",
}  # fmt: skip
PACKAGES = {
    "canonicaljson", "cryptography.x509", "nacl", "orjson", "prometheus_client", "pycrdt", "pydantic",
    "yarl",
}  # fmt: skip
# Names that reach outside although their module is allowed.
FORBIDDEN_CALLS = {
    "now", "utcnow", "today", "uuid1", "uuid4", "generate", "open", "print", "input", "exec", "eval",
    "breakpoint", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rename",
    "resolve", "exists", "stat",
}  # fmt: skip
DECIDING = [module for module in modules() if not module.is_shell]


@pytest.mark.parametrize("module", DECIDING, ids=lambda module: str(module.relative))
def test_a_deciding_module_imports_from_the_allow_list(module: Module) -> None:
    """No event loop, no socket, no clock, no randomness, no log within reach."""
    allowed = STANDARD_LIBRARY | PACKAGES
    for name in module.imports():
        if name.split(".")[0] in {"bridge", "appservice", "federation", "storage", "migrations"}:
            continue
        assert any(name == entry or name.startswith(entry + ".") for entry in allowed), name


@pytest.mark.parametrize("module", DECIDING, ids=lambda module: str(module.relative))
def test_a_deciding_module_imports_no_shell(module: Module) -> None:
    """What decides is called by shells; the other way round the I/O would come in by the back door."""
    for name in module.imports():
        parts = name.split(".")
        if parts[0] == "storage":
            assert parts[1] == "errors", name
        for length in range(1, len(parts) + 1):
            path = ROOT.joinpath(*parts[:length]).with_suffix(".py")
            assert not (path.exists() and Module(path).is_shell and parts[0] != "storage"), name


@pytest.mark.parametrize("module", DECIDING, ids=lambda module: str(module.relative))
def test_a_deciding_module_awaits_nothing_and_asks_nobody(module: Module) -> None:
    """Time, randomness and answers are arguments."""
    for node in ast.walk(module.tree()):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in FORBIDDEN_CALLS, f"line {node.lineno}: {called}"


def test_the_allow_list_names_real_modules() -> None:
    """A misspelt entry would allow nothing and hide that."""
    assert {name.split(".")[0] for name in STANDARD_LIBRARY} <= set(sys.stdlib_module_names)
