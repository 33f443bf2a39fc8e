"""Named SQL statements, each checked by a real Postgres."""

from pathlib import Path

import pytest

import storage
from storage.database import Database
from storage.statements import Statements, load, parse

ROOT = Path(storage.__file__).parent
FILES = sorted(ROOT.rglob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
async def test_every_statement_can_be_prepared(path: Path, database: Database) -> None:
    """Postgres accepts every statement of the packages on the migrated schema."""
    statements = parse(path.read_text(), path.name)
    assert statements, f"{path} has no statement"
    async with database.connection() as connection:
        for sql in statements.values():
            await connection.prepare(sql)


def test_all_sql_files_are_found() -> None:
    """Also those in subpackages, so that none is left unchecked."""
    assert {ROOT / "node.sql", ROOT / "rooms" / "rooms.sql"} <= set(FILES)


def test_a_file_is_loaded_from_its_package() -> None:
    """A statement is an attribute and an item."""
    sql = load("storage", "node.sql")
    assert sql.fetch_server_name == sql["fetch_server_name"] == "SELECT server_name FROM node"
    assert set(sql) == {"insert_node", "fetch_server_name", "fetch_owner"}
    assert len(sql) == 3


def test_comments_above_a_name_are_not_sent() -> None:
    """Comments inside a statement are."""
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
def test_an_invalid_file_is_refused(text: str, message: str) -> None:
    """Duplicate names, SQL without a name and names without SQL are bugs that the first import finds."""
    with pytest.raises(ValueError, match=message):
        parse(text, "x.sql")


def test_an_unknown_name_raises_an_error_with_the_file() -> None:
    """A misspelt statement fails in Python, not in Postgres."""
    statements = Statements("storage/x.sql", {"one": "SELECT 1"})
    with pytest.raises(AttributeError, match=r"storage/x\.sql has no statement two"):
        _ = statements.two
