"""The directory of the embedded Postgres: its owner and its lock."""

import os
import stat
from pathlib import Path

import pytest

from storage.embedded.home import Identity, Layout, choose_identity, grant_access, lock_home, prepare_home, wrong_owner
from storage.errors import LocalError
from tests.storage.conftest import RUN_AS, owner


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def another_user() -> Identity | None:
    return choose_identity(RUN_AS, os.geteuid())


def test_it_is_created_for_the_user_of_postgres(empty_directory: Path) -> None:
    """Mode 0700, owned by the user of Postgres; the data directory has mode 0700 as well."""
    layout = Layout(empty_directory / "data")
    prepare_home(layout, another_user())
    assert mode(layout.data) == mode(layout.home) == 0o700
    assert (layout.home.stat().st_uid, layout.home.stat().st_gid) == owner()
    assert layout.data.stat().st_uid == os.geteuid()


def test_a_loosened_mode_is_corrected(empty_directory: Path) -> None:
    """A user who may enter can use the socket without a password."""
    layout = Layout(empty_directory)
    prepare_home(layout, another_user())
    layout.home.chmod(0o755)
    prepare_home(layout, another_user())
    assert mode(layout.home) == 0o700


def test_nothing_else_is_changed(empty_directory: Path) -> None:
    """No mode and no owner outside the directory itself."""
    empty_directory.chmod(0o751)
    layout = Layout(empty_directory)
    prepare_home(layout, another_user())
    assert mode(empty_directory) == 0o751
    assert empty_directory.stat().st_uid == os.geteuid()


def test_a_directory_of_another_user_is_refused(empty_directory: Path) -> None:
    """Postgres would refuse it as well; this error says what to do."""
    layout = Layout(empty_directory)
    prepare_home(layout, another_user())
    if os.geteuid() == 0:
        os.chown(layout.home, 12345, -1)
        with pytest.raises(LocalError) as refused:
            prepare_home(layout, another_user())
        error = refused.value
    else:
        error = wrong_owner(layout, 12345, os.geteuid())
    assert error.problem.startswith(f"{layout.home} belongs to user 12345, and Postgres would run as ")
    assert error.advice.startswith("Change its owner as root: chown -R ")
    assert str(layout.home) in error.advice


def test_a_non_empty_directory_of_root_is_refused(empty_directory: Path) -> None:
    """The owner of a copy made by root must be changed recursively. An ordinary user cannot have this
    case."""
    layout = Layout(empty_directory)
    layout.home.mkdir(mode=0o700)
    (layout.home / "18").mkdir()
    if os.geteuid() == 0:
        with pytest.raises(LocalError, match="belongs to root, and Postgres would run as nobody"):
            prepare_home(layout, another_user())
    else:
        prepare_home(layout, another_user())
        assert layout.home.stat().st_uid == os.geteuid()


def test_a_symbolic_link_is_not_followed(empty_directory: Path) -> None:
    """Otherwise the owner of any directory could be changed."""
    elsewhere = empty_directory / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (empty_directory / "postgres").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        prepare_home(Layout(empty_directory), another_user())
    assert mode(elsewhere) == 0o755
    assert elsewhere.stat().st_uid == os.geteuid()


def test_one_node_locks_it_at_a_time(empty_directory: Path) -> None:
    """Closing the handle releases the lock; the kernel does so for a killed process."""
    layout = Layout(empty_directory)
    prepare_home(layout, another_user())
    held = lock_home(layout)
    with pytest.raises(LocalError) as refused:
        lock_home(layout)
    assert refused.value.problem == f"Another node is using the data directory {empty_directory}."
    os.close(held)
    os.close(lock_home(layout))


@pytest.mark.parametrize(("before", "after", "opened"), [(0o700, 0o710, True), (0o750, 0o750, False)])
def test_access_is_granted_only_if_the_group_had_none(
    empty_directory: Path, before: int, after: int, opened: bool
) -> None:
    """The group of Postgres may only traverse the directory, and no group loses a right."""
    empty_directory.chmod(before)
    group = owner()[1]
    assert grant_access(Layout(empty_directory), Identity("x", os.geteuid(), group, (group,))) is opened
    assert mode(empty_directory) == after
    assert (empty_directory.stat().st_gid == group) is (opened or os.getegid() == group)
