from bench._harness.database import Database, connected


async def test_commits_are_durable(served: Database) -> None:
    """The settings that make a commit cost what it costs are on, and the table says so."""
    async with connected(served.address) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await connection.fetchval("SELECT current_setting($1)", setting) == "on"
        assert await connection.fetchval("SHOW server_version") == served.version
    [remark] = served.remarks
    settings = "fsync on, synchronous_commit on, full_page_writes on"
    assert remark.startswith(f"Postgres {served.version} over a Unix socket, {settings}, on ")


def test_a_file_system_in_memory_is_called_one() -> None:
    """A figure from there is no figure of commits."""
    [remark] = Database("", "18.4", "tmpfs", 1).remarks
    assert remark.endswith("on tmpfs, where fsync costs nothing (TMPDIR chooses another).")
    assert Database("", "18.4", "ext4", 1).remarks[0].endswith(", on ext4.")
