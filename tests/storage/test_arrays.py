"""Lists of texts as one argument."""

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
async def test_postgres_reads_the_same_texts(texts: list[str], database: Database) -> None:
    """Whatever they hold."""
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT $1::text::text[]", text_array(texts)) == texts
