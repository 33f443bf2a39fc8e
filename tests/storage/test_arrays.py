"""Lists of texts as one argument."""

import pytest

from storage.arrays import text_array
from storage.database import Database


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
async def test_postgres_reads_the_same_texts(texts: list[str], database: Database) -> None:
    """Whatever they hold."""
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT $1::text::text[]", text_array(texts)) == texts
