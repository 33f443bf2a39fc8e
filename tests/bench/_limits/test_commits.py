from bench._harness.database import Database
from bench._limits.commits import BATCH, CONNECTIONS, copied, single_rows, unnested, writing_into

COUNT = "SELECT count(*) FROM written"


async def test_what_is_counted_is_what_was_written(served: Database) -> None:
    """Every row, each in a table that is empty when its sample begins."""
    async with writing_into(served) as subject:
        reader = subject.connections[0]
        assert len(subject.connections) == CONNECTIONS

        alone = await single_rows(subject, 0.01, connections=1)
        assert await reader.fetchval(COUNT) == alone.operations

        together = await single_rows(subject, 0.01, connections=CONNECTIONS)
        assert await reader.fetchval(COUNT) == together.operations >= CONNECTIONS
        # One commit each: as many transactions as rows.
        assert await reader.fetchval("SELECT count(DISTINCT xmin::text) FROM written") == together.operations

        for batched in (unnested, copied):
            measured = await batched(subject, 0.01)
            assert await reader.fetchval(COUNT) == measured.operations
            assert measured.operations % BATCH == 0
            assert await reader.fetchval("SELECT count(DISTINCT xmin::text) FROM written") * BATCH == (
                measured.operations
            )
