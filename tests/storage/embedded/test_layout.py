"""The paths of the embedded Postgres, and unusable data directories."""

from pathlib import Path

import pytest

from storage.embedded.home import MAX_SOCKET_PATH_BYTES, Layout, check_major_version, check_path
from storage.errors import LocalError


def test_everything_is_below_one_directory() -> None:
    """DATA/postgres contains the cluster, named by its major version, the socket and the log."""
    layout = Layout(Path("/srv/data"))
    assert layout.home == Path("/srv/data/postgres")
    assert layout.cluster == layout.home / "18"
    assert layout.postmaster_file == layout.home / "18" / "postmaster.pid"
    assert layout.unfinished == "18.new."
    for path in (layout.socket, layout.socket_lock, layout.log):
        assert path.parent == layout.home


def deep(length: int) -> Layout:
    """A layout whose socket has a path of this many bytes."""
    bare = len(bytes(Layout(Path("/")).socket))
    return Layout(Path("/" + "ä" + "a" * (length - bare - 3)))


def test_a_path_of_the_maximum_length_is_accepted() -> None:
    """107 bytes, not characters."""
    check_path(deep(MAX_SOCKET_PATH_BYTES))


def test_a_path_that_is_too_long_is_refused() -> None:
    """The error says by how much."""
    layout = deep(MAX_SOCKET_PATH_BYTES + 3)
    with pytest.raises(LocalError) as refused:
        check_path(layout)
    assert refused.value.problem == (
        f"The data directory {layout.data} is 3 bytes too long for the path of a Unix socket, which may have 107."
    )
    assert refused.value.advice == "Set data_dir to a shorter path."


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\nb"])
def test_characters_that_postgres_cannot_use_are_refused(name: str) -> None:
    """It parses socket directories as a list."""
    with pytest.raises(LocalError, match="a comma, a quotation mark or a line break in its path"):
        check_path(Layout(Path("/srv") / name))


LAYOUT = Layout(Path("/srv/data"))


@pytest.mark.parametrize(
    ("names", "version"), [(set(), None), ({"18"}, "18"), ({"postgres.log", "18.new.1234"}, None), ({"18", "17"}, "18")]
)
def test_a_cluster_of_this_major_version_is_accepted(names: set[str], version: str | None) -> None:
    """Other clusters, which an upgrade has left, do not matter."""
    check_major_version(LAYOUT, names, version)


@pytest.mark.parametrize(
    ("names", "version", "found"),
    [({"18"}, "17", "17"), ({"17"}, None, "17"), ({"9", "16"}, None, "16"), ({"19", "postgres.log"}, None, "19")],
)
def test_a_cluster_of_another_major_version_is_refused(names: set[str], version: str | None, found: str) -> None:
    """With a new, empty cluster beside it all data would seem to be lost."""
    with pytest.raises(LocalError) as refused:
        check_major_version(LAYOUT, names, version)
    assert refused.value.problem == (
        f"The data in /srv/data/postgres is of Postgres {found}, and this Palaver includes Postgres 18."
    )
    assert refused.value.advice.startswith(f"Write a backup with a Palaver that includes Postgres {found}")
