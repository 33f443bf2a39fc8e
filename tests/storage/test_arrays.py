"""Array literals."""

import pytest

from storage.database import Database
from storage.statements import text_array


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["$a"],
        ["$a", "$b", "$c"],
        ['"', "\\", '\\"', "{}", ",", " a ", "NULL", "é", "a\nb", "'", "$1", ";--"],
        ["a", ""],
        [""],
    ],
)
async def test_postgres_parses_array_literals(texts: list[str], database: Database) -> None:
    """Whatever characters the texts contain."""
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT $1::text::text[]", text_array(texts)) == texts
