"""Reading and bounding the log of Postgres."""

import os
from pathlib import Path

from storage.embedded.log import READ_AT_MOST, LogPosition, end_of_log, read_since, truncate


def test_only_lines_after_the_position_are_read(tmp_path: Path) -> None:
    """They have the reason for this failure, not for an earlier one."""
    log = tmp_path / "log"
    assert end_of_log(log) == LogPosition()
    assert read_since(log, end_of_log(log)) == ""
    log.write_text("FATAL: old\n")
    start = end_of_log(log)
    with log.open("a") as file:
        file.write("FATAL: new\n")
    assert read_since(log, start) == "FATAL: new\n"
    assert read_since(log, LogPosition()) == "FATAL: old\nFATAL: new\n"


def test_after_a_rotation_everything_is_new(tmp_path: Path) -> None:
    """The launcher may have rotated the log since."""
    log = tmp_path / "log"
    log.write_text("FATAL: old\n")
    start = end_of_log(log)
    log.rename(tmp_path / "log.1")
    log.write_text("FATAL: new\n")
    assert read_since(log, start) == "FATAL: new\n"


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    """The reason is in its last lines."""
    log = tmp_path / "log"
    log.write_text("x" * READ_AT_MOST + "end")
    assert len(read_since(log, LogPosition())) == READ_AT_MOST
    assert read_since(log, LogPosition()).endswith("end")


def test_a_long_log_is_emptied_while_it_is_written(tmp_path: Path) -> None:
    """A writer in append mode continues at the new end. A short log stays."""
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as file:
        file.write(b"0123456789")
        assert not truncate(log, limit=10)
        assert truncate(log, limit=9)
        file.write(b"next")
    assert log.read_bytes() == b"next"
    assert not truncate(tmp_path / "missing", limit=0)


def test_other_files_in_its_place_are_left_alone(tmp_path: Path) -> None:
    """The directory belongs to another user: symbolic links, pipes and hard links are not touched."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    os.link(victim, tmp_path / "second")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "second", "pipe"):
        assert not truncate(tmp_path / name, limit=0)
    assert read_since(tmp_path / "link", LogPosition()) == ""
    assert victim.read_text() == "precious"
