"""The directory of the private Postgres: whose it is, and who holds it."""

import os
import stat
from pathlib import Path

import pytest

from storage.embedded.home import (
    Identity,
    Layout,
    choose_identity,
    grant_access,
    lock_home,
    prepare_home,
    wrong_owner,
)
from storage.errors import LocalError
from tests.storage.conftest import RUN_AS, owner


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def somebody() -> Identity | None:
    return choose_identity(RUN_AS, os.geteuid())


def test_it_is_made_for_the_user_of_the_child_alone(empty_directory: Path) -> None:
    """Rule: mode 0700, owned by the child's user; the data directory is closed too."""
    layout = Layout(empty_directory / "data")
    prepare_home(layout, somebody())
    assert mode(layout.data) == mode(layout.home) == 0o700
    assert (layout.home.stat().st_uid, layout.home.stat().st_gid) == owner()
    assert layout.data.stat().st_uid == os.geteuid()


def test_a_mode_that_was_loosened_is_put_right(empty_directory: Path) -> None:
    """Whoever may enter may use the socket, without any password."""
    layout = Layout(empty_directory)
    prepare_home(layout, somebody())
    layout.home.chmod(0o755)
    prepare_home(layout, somebody())
    assert mode(layout.home) == 0o700


def test_nothing_else_is_changed(empty_directory: Path) -> None:
    """Rule: no mode and no owner outside the directory itself."""
    empty_directory.chmod(0o751)
    layout = Layout(empty_directory)
    prepare_home(layout, somebody())
    assert mode(empty_directory) == 0o751
    assert empty_directory.stat().st_uid == os.geteuid()


def test_what_another_user_owns_is_refused(empty_directory: Path) -> None:
    """Postgres would refuse it as well; here the sentence says what to do."""
    layout = Layout(empty_directory)
    prepare_home(layout, somebody())
    if os.geteuid() == 0:
        os.chown(layout.home, 12345, -1)
        with pytest.raises(LocalError) as refused:
            prepare_home(layout, somebody())
        error = refused.value
    else:
        error = wrong_owner(layout, 12345, os.geteuid())
    assert error.problem.startswith(f"{layout.home} belongs to user 12345, and Postgres would run as ")
    assert error.advice.startswith("Change its owner as root: chown -R ")
    assert str(layout.home) in error.advice


def test_what_root_left_filled_is_refused(empty_directory: Path) -> None:
    """A copy made by root has to be handed over whole; for an ordinary user there is no such case."""
    layout = Layout(empty_directory)
    layout.home.mkdir(mode=0o700)
    (layout.home / "18").mkdir()
    if os.geteuid() == 0:
        with pytest.raises(LocalError, match="belongs to root, and Postgres would run as nobody"):
            prepare_home(layout, somebody())
    else:
        prepare_home(layout, somebody())
        assert layout.home.stat().st_uid == os.geteuid()


def test_a_link_in_its_place_is_not_followed(empty_directory: Path) -> None:
    """It would hand over whatever directory it leads to."""
    elsewhere = empty_directory / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (empty_directory / "postgres").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        prepare_home(Layout(empty_directory), somebody())
    assert mode(elsewhere) == 0o755
    assert elsewhere.stat().st_uid == os.geteuid()


def test_one_node_holds_it_at_a_time(empty_directory: Path) -> None:
    """And gives it back by closing it, which the kernel does for one that is killed."""
    layout = Layout(empty_directory)
    prepare_home(layout, somebody())
    held = lock_home(layout)
    with pytest.raises(LocalError) as refused:
        lock_home(layout)
    assert refused.value.problem == f"Another node is using the data directory {empty_directory}."
    os.close(held)
    os.close(lock_home(layout))


@pytest.mark.parametrize(("before", "after", "opened"), [(0o700, 0o710, True), (0o750, 0o750, False)])
def test_the_data_directory_is_opened_only_where_nobody_else_counted_on_it(
    empty_directory: Path, before: int, after: int, opened: bool
) -> None:
    """To pass through is all that the group of the child may do, and no group loses what it had."""
    empty_directory.chmod(before)
    group = owner()[1]
    assert grant_access(Layout(empty_directory), Identity("x", os.geteuid(), group, (group,))) is opened
    assert mode(empty_directory) == after
    assert (empty_directory.stat().st_gid == group) is (opened or os.getegid() == group)
