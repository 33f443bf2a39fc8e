"""Named statements in files, and every one of them shown to a real Postgres."""

from pathlib import Path

import pytest

import storage
from storage.database import Database
from storage.statements import Statements, load, parse

ROOT = Path(storage.__file__).parent
FILES = sorted(ROOT.rglob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
async def test_every_statement_can_be_prepared(path: Path, database: Database) -> None:
    """Rule 9: Postgres takes every statement of the packages as it stands, on the migrated schema."""
    statements = parse(path.read_text(), path.name)
    assert statements, f"{path} has no statement"
    async with database.connection() as connection:
        for sql in statements.values():
            await connection.prepare(sql)


def test_the_search_for_files_finds_those_below_too() -> None:
    """A file that nobody finds would be one that nobody checks."""
    assert {ROOT / "node.sql", ROOT / "rooms" / "rooms.sql"} <= set(FILES)


def test_a_file_is_read_from_its_package() -> None:
    """Both ways of naming a statement lead to the same text."""
    sql = load("storage", "node.sql")
    assert sql.fetch_server_name == sql["fetch_server_name"] == "SELECT server_name FROM node"
    assert set(sql) == {"insert_node", "fetch_server_name", "fetch_owner"}
    assert len(sql) == 3


def test_why_stands_above_a_name_and_is_not_sent() -> None:
    """Comments around a statement stay in the file; one between its lines goes with it."""
    one = "-- A file.\n\n-- Why.\n-- name: one\n-- Still why.\nSELECT 1,\n-- here\n  2;\n\n"
    two = "-- Why two.\n-- name: two\nSELECT 2\n"
    assert parse(one + two, "x.sql") == {"one": "SELECT 1,\n-- here\n  2", "two": "SELECT 2"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\n-- name: one\nSELECT 1", r"x\.sql:1: SQL before the first"),
        ("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2", r"x\.sql:3: there are two statements one"),
        ("-- name: one\n-- name: two\nSELECT 2", r"x\.sql: the statement one is empty"),
        ("-- name: one\n-- only why\n;\n", r"x\.sql: the statement one is empty"),
        ("-- name: Fetch Things\nSELECT 1", r"x\.sql:1: 'Fetch Things' is not usable"),
        ("-- name:\nSELECT 1", r"x\.sql:1: '' is not usable"),
        ("-- name: items\nSELECT 1", r"x\.sql:1: 'items' is not usable"),
    ],
)
def test_a_file_with_a_mistake_is_refused(text: str, message: str) -> None:
    """Duplicates, SQL without a name and statements without SQL are bugs that the first import finds."""
    with pytest.raises(ValueError, match=message):
        parse(text, "x.sql")


def test_a_name_that_does_not_exist_is_an_error_that_names_the_file() -> None:
    """A misspelt statement fails where it is written, not in Postgres."""
    statements = Statements("storage/x.sql", {"one": "SELECT 1"})
    with pytest.raises(AttributeError, match=r"storage/x\.sql has no statement two"):
        _ = statements.two
