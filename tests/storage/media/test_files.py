"""Bytes in files that are named by what is in them."""

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from storage.media.files import HEAD_BYTES, DiskFull, MediaFiles

HELLO = hashlib.sha256(b"hello").digest()


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    files = MediaFiles(tmp_path / "media")
    files.prepare()
    return files


def keep(files: MediaFiles, data: bytes) -> None:
    incoming = files.begin()
    incoming.write(data)
    incoming.save()
    incoming.discard()


def everything(files: MediaFiles) -> list[str]:
    return sorted(
        str(path.relative_to(files.directory)) for path in files.directory.rglob("*") if path.is_file()
    )


def test_a_file_is_named_by_its_hash(files: MediaFiles) -> None:
    """Two levels of directories above it, readable for nobody else."""
    name = HELLO.hex()
    for _ in range(2):
        keep(files, b"hello")
        assert everything(files) == [f"sha256/{name[:2]}/{name[2:4]}/{name[4:]}"]
    assert stat.S_IMODE(files.path(HELLO).stat().st_mode) == 0o600
    file = files.open(HELLO)
    assert file is not None
    with file:
        assert file.readall() == b"hello"


def test_all_files_can_be_listed(files: MediaFiles) -> None:
    """Section by section; what is not ours is left out."""
    kept = {hashlib.sha256(bytes([number])).digest() for number in range(50)}
    for number in range(50):
        keep(files, bytes([number]))
    other = files.directory / "sha256" / "lost+found" / "x"
    other.mkdir(parents=True)
    (other / "y").write_bytes(b"")
    listed = [sha256 for section in files.sections() for sha256 in files.list_hashes(section)]
    assert len(listed) == 50
    assert set(listed) == kept


def test_it_comes_in_pieces(files: MediaFiles) -> None:
    """Hash, size and beginning are those of all of it."""
    incoming = files.begin()
    for piece in (b"he", b"", b"llo", b"x" * 100):
        incoming.write(piece)
    assert incoming.sha256 == hashlib.sha256(b"hello" + b"x" * 100).digest()
    assert incoming.size == 105
    assert incoming.head == (b"hello" + b"x" * 100)[:HEAD_BYTES]
    incoming.discard()


def test_what_is_discarded_leaves_nothing(files: MediaFiles) -> None:
    """Neither before a name was given nor twice."""
    incoming = files.begin()
    incoming.write(b"hello")
    assert len(everything(files)) == 1
    incoming.discard()
    incoming.discard()
    assert everything(files) == []
    assert files.open(HELLO) is None


def test_thumbnails_go_with_their_picture(files: MediaFiles) -> None:
    """And whoever reads goes on reading."""
    keep(files, b"hello")
    incoming = files.begin()
    incoming.write(b"small")
    incoming.save_thumbnail(HELLO, "96x96-crop")
    incoming.discard()
    thumbnail = files.open_thumbnail(HELLO, "96x96-crop")
    assert thumbnail is not None
    with thumbnail:
        files.delete(HELLO)
        files.delete(HELLO)
        assert everything(files) == []
        assert thumbnail.readall() == b"small"
    assert files.open_thumbnail(HELLO, "96x96-crop") is None


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "a\0b"])
def test_no_name_leads_anywhere_else(files: MediaFiles, name: str) -> None:
    """Such a name is a mistake of ours: nothing that was sent gets here."""
    with pytest.raises(AssertionError):
        files.thumbnail(HELLO, name)
    with pytest.raises(AssertionError):
        files.path(name.encode())


def test_the_rest_of_the_disk_is_left_to_others(tmp_path: Path) -> None:
    """Refused before it is full, in words for whoever runs the node."""
    files = MediaFiles(tmp_path / "media", reserve=1 << 60)
    files.prepare()
    incoming = files.begin()
    with pytest.raises(DiskFull, match="no space left"):
        incoming.write(b"hello")
    incoming.discard()
    assert everything(files) == []


def test_a_full_disk_is_called_one(files: MediaFiles) -> None:
    """Whoever was faster with the last bytes; everything else is what it is."""
    with pytest.raises(DiskFull), files.translate_disk_full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(PermissionError), files.translate_disk_full():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_what_a_killed_process_was_writing_is_cleared_away(files: MediaFiles) -> None:
    """After a day; before that it may be what another process is writing."""
    for name, age in (("old", 2 * 86_400), ("young", 3600)):
        path = files.directory / "incoming" / name
        path.write_bytes(b"")
        now = path.stat().st_mtime
        os.utime(path, (now - age, now - age))
    files.prepare()
    assert everything(files) == ["incoming/young"]
