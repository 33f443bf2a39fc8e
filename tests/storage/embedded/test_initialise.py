"""Creating a cluster, completely or not at all."""

import os
from pathlib import Path

import pytest

from storage.embedded.home import Layout, choose_identity, prepare_home
from storage.embedded.initialise import is_initialised, remove_unfinished
from storage.embedded.launch import Programs
from storage.errors import LocalError
from tests.storage.conftest import RUN_AS
from tests.storage.embedded.nodes import node, started


async def test_a_kill_during_the_initialisation_leaves_only_temporary_files(empty_directory: Path) -> None:
    """A cluster is created under a temporary name, and the next start removes such directories."""
    layout = Layout(empty_directory)
    for _ in range(2):
        async with node(empty_directory) as victim:
            while not any(layout.home.glob(layout.unfinished + "*/base")):
                assert victim.process.returncode is None
            await victim.kill()
    assert not layout.cluster.exists()
    async with started(empty_directory) as (_, reports):
        assert reports.names() == ["postgres_initialised", "postgres_started"]
        assert is_initialised(layout)
        assert {entry.name for entry in layout.home.iterdir()} == {
            "18",
            "postgres.log",
            layout.socket.name,
            layout.socket_lock.name,
        }


async def test_a_failure_of_initdb_is_explained(empty_directory: Path) -> None:
    """With its message; no cluster exists afterwards."""
    layout = Layout(empty_directory)
    identity = choose_identity(RUN_AS, os.geteuid())
    prepare_home(layout, identity)
    with pytest.raises(LocalError) as refused:
        await Programs(layout, identity).initdb(["--pgdata", "@home@/18", "--encoding", "KLINGON"])
    assert refused.value.problem == (
        f'Postgres could not start in {layout.home}: "KLINGON" is not a valid server encoding name.'
    )
    assert not is_initialised(layout)


def test_an_empty_directory_is_not_a_cluster(empty_directory: Path) -> None:
    """It may be a volume that was mounted there."""
    layout = Layout(empty_directory)
    assert not is_initialised(layout)
    layout.cluster.mkdir(parents=True)
    assert not is_initialised(layout)
    (layout.cluster / "PG_VERSION").touch()
    assert is_initialised(layout)


def test_removing_without_leftovers(empty_directory: Path) -> None:
    """Other directories stay."""
    layout = Layout(empty_directory)
    layout.home.mkdir()
    remove_unfinished(layout)
    (layout.home / "18.news").mkdir()
    (layout.home / "18.new.12345678" / "base").mkdir(parents=True)
    remove_unfinished(layout)
    assert [entry.name for entry in layout.home.iterdir()] == ["18.news"]
