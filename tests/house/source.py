"""The project's own source code, parsed for these tests."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("bridge", "appservice", "federation", "storage", "migrations")

# What a module may import and still be free of I/O; everything else from outside the project counts as I/O.
PURE_LIBRARIES = {
    "__future__", "abc", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "difflib", "email", "enum", "fnmatch", "fractions", "functools", "hashlib", "heapq", "hmac",
    "html", "importlib.resources", "io", "ipaddress", "itertools", "json", "math", "operator", "pathlib",
    "re", "string", "struct", "textwrap", "tomllib", "types", "typing", "unicodedata", "urllib.parse", "uuid",
    # Packages
    "PIL", "cachetools", "canonicaljson", "cryptography.x509", "markdown_it", "multidict", "nacl", "nh3",
    "orjson", "prometheus_client", "pycrdt", "pydantic", "signedjson", "tomli_w", "yaml", "yarl",
}  # fmt: skip
# Calls that reach outside although the import is allowed.
IO_CALLS = {
    "now", "utcnow", "today", "uuid1", "uuid4", "generate", "open", "print", "input", "exec", "eval",
    "breakpoint", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rename",
    "resolve", "exists", "stat",
}  # fmt: skip
ASYNC = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith


@dataclass(frozen=True)
class Module:
    path: Path

    @property
    def relative(self) -> Path:
        return self.path.relative_to(ROOT)

    @property
    def package(self) -> str:
        return self.relative.parts[0]

    @property
    def name(self) -> str:
        return ".".join(self.relative.with_suffix("").parts).removesuffix(".__init__")

    @property
    def does_io(self) -> bool:
        """Return whether a module awaits, reads a clock, draws random numbers, opens a socket or a file, or
        logs."""
        return _does_io(self)

    def tree(self) -> ast.Module:
        return _parse(self.path)

    def imports(self, *, at_runtime: bool = False) -> Iterator[str]:
        """Return the dotted names that a module imports, including `a.b.c` for `from a.b import c`; with
        `at_runtime`, without imports for the type checker only."""
        for node in _nodes(self.tree(), without_types=at_runtime):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def imported_modules(self) -> set[Path]:
        """Return the project's files that a module imports at run time."""
        return {path for name in self.imports(at_runtime=True) if (path := _file_of(name)) is not None}


def _nodes(tree: ast.AST, *, without_types: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if without_types and isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        yield child
        yield from _nodes(child, without_types=without_types)


@cache
def _file_of(name: str) -> Path | None:
    """Return the file of a module, or of the module that defines the imported name."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return None
    for length in (len(parts), len(parts) - 1):
        path = ROOT.joinpath(*parts[:length])
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
        if (path / "__init__.py").is_file():
            return path / "__init__.py"
    return None


@cache
def _does_io(module: Module) -> bool:
    for node in ast.walk(module.tree()):
        if isinstance(node, ASYNC):
            return True
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in IO_CALLS:
                return True
    return any(
        not any(name == pure or name.startswith(pure + ".") for pure in PURE_LIBRARIES)
        for name in module.imports(at_runtime=True)
        if name.split(".")[0] not in PACKAGES
    )


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def modules() -> list[Module]:
    return [Module(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def has_code(module: Module) -> bool:
    """Return whether a module contains more than a docstring and re-exports."""
    quiet = (ast.Import, ast.ImportFrom)
    return any(
        not isinstance(node, quiet)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.Assign) and [getattr(name, "id", "") for name in node.targets] == ["__all__"])
        for node in module.tree().body
    )
