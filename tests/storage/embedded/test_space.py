"""Free space on the disk."""

import os
from pathlib import Path

import pytest

from storage.embedded.home import check_free_space, format_size, free_space, not_enough_space
from storage.errors import LocalError


def test_space_reserved_for_root_does_not_count(tmp_path: Path) -> None:
    """Postgres runs as an ordinary user."""
    usage = os.statvfs(tmp_path)
    assert 0 < free_space(tmp_path) <= usage.f_bfree * usage.f_frsize
    assert 0 < free_space(tmp_path / "not" / "yet") <= usage.f_bfree * usage.f_frsize


def test_too_little_space_is_refused_before_a_start(tmp_path: Path) -> None:
    """The error has the free space, the directory, and the required space."""
    check_free_space(tmp_path, 1)
    with pytest.raises(LocalError) as refused:
        check_free_space(tmp_path, 1 << 60)
    assert refused.value.problem.endswith(
        f"are free on the disk of {tmp_path}, and Postgres needs 1048576.0 TiB there to start."
    )
    assert refused.value.advice.startswith("Free space on that disk")


def test_the_problem_is_one_sentence() -> None:
    error = not_enough_space(Path("/srv"), 5 << 20, "Postgres ran out of space")
    assert error.problem == "Only 5.0 MiB are free on the disk of /srv, and Postgres ran out of space."


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (256 << 20, "256.0 MiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_have_a_suitable_unit(count: int, text: str) -> None:
    assert format_size(count) == text
