"""Loads named SQL statements from the `.sql` files beside the modules that use them.

A statement begins with a line `-- name: fetch_thing` and ends where the next one begins. Comments above a
name are not sent to the server.

`text_array` writes a list as an array literal, for statements whose most expensive argument would be a list:
the driver visits every entry of a list three times before it writes it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

HEADER = re.compile(r"--\s*name:\s*(?P<name>.*?)\s*$")
NAME = re.compile(r"[a-z][a-z0-9_]*")


class Statements(Mapping[str, str]):
    """The statements of one file: `SQL.fetch_thing`, or `SQL["fetch_thing"]`."""

    def __init__(self, origin: str, statements: Mapping[str, str]) -> None:
        self._origin = origin
        self._statements = dict(statements)
        # Plain attributes, because a statement is looked up each time that it is executed.
        vars(self).update(statements)

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):  # copy and pickle look these up before `__init__` has run
            raise AttributeError(name)
        raise AttributeError(f"{self._origin} has no statement {name}")

    def __getitem__(self, name: str) -> str:
        return self._statements[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


def load(package: str, file: str) -> Statements:
    """`load("storage", "node.sql")`. Works from a zip or a wheel as well as from a checkout."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    return Statements(f"{package}/{file}", parse(text, f"{package}/{file}"))


def parse(text: str, origin: str) -> dict[str, str]:
    """Raises ValueError with the file and line. An error in the file is a bug, which the first import
    shows."""
    found: dict[str, str] = {}
    name: str | None = None
    body: list[str] = []

    def finish() -> None:
        if name is None:
            return
        lines = list(body)
        while lines and is_comment(lines[-1]):
            lines.pop()
        while lines and is_comment(lines[0]):
            lines.pop(0)
        statement = "\n".join(lines).strip().removesuffix(";").rstrip()
        if not statement:
            raise ValueError(f"{origin}: the statement {name} is empty")
        found[name] = statement

    for number, line in enumerate(text.splitlines(), 1):
        header = HEADER.match(line)
        if header is not None:
            finish()
            name, body = header["name"], []
            if not NAME.fullmatch(name) or hasattr(Mapping, name):
                raise ValueError(f"{origin}:{number}: {name!r} is not usable as the name of a statement")
            if name in found:
                raise ValueError(f"{origin}:{number}: there are two statements {name}")
        elif name is not None:
            body.append(line)
        elif not is_comment(line):
            raise ValueError(f"{origin}:{number}: SQL before the first `-- name:`")
    finish()
    return found


def is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("--")


def text_array(texts: Sequence[str]) -> str:
    """An array literal, which the statement casts: `$1::text::text[]`. The texts contain no NUL, which
    Postgres does not accept in text."""
    if not texts:
        return "{}"
    joined = "\0".join(texts)
    if "\\" in joined or '"' in joined:
        joined = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + joined.replace("\0", '","') + '"}'
