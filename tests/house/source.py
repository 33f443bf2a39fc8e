"""Our own source as these tests see it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("bridge", "appservice", "federation", "storage", "migrations")


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
    def is_shell(self) -> bool:
        """Rule 1: the modules that may await, read a clock, draw randomness, open a socket or log."""
        return (
            bool({"service", "wire", "cli"} & set(self.relative.parts[:-1]))
            or self.package == "storage"
            or str(self.relative) in {"bridge/run.py", "bridge/clock.py"}
        )

    def tree(self) -> ast.Module:
        return _parse(self.path)

    def imports(self) -> Iterator[str]:
        """The dotted names of what it imports, `a.b.c` for `from a.b import c` too."""
        for node in ast.walk(self.tree()):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def modules() -> list[Module]:
    return [Module(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def has_code(module: Module) -> bool:
    """Whether it says more than a docstring and what it re-exports."""
    quiet = (ast.Import, ast.ImportFrom)
    return any(
        not isinstance(node, quiet)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (
            isinstance(node, ast.Assign) and [getattr(name, "id", "") for name in node.targets] == ["__all__"]
        )
        for node in module.tree().body
    )
