"""Media files, named by the hash of their content."""

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


def save(files: MediaFiles, data: bytes) -> None:
    incoming = files.begin()
    incoming.write(data)
    incoming.save()
    incoming.discard()


def all_files(files: MediaFiles) -> list[str]:
    return sorted(str(path.relative_to(files.directory)) for path in files.directory.rglob("*") if path.is_file())


def test_a_file_is_named_by_its_hash(files: MediaFiles) -> None:
    """In two levels of directories, readable only by its owner."""
    name = HELLO.hex()
    for _ in range(2):
        save(files, b"hello")
        assert all_files(files) == [f"sha256/{name[:2]}/{name[2:4]}/{name[4:]}"]
    assert stat.S_IMODE(files.path(HELLO).stat().st_mode) == 0o600
    file = files.open(HELLO)
    assert file is not None
    with file:
        assert file.readall() == b"hello"


def test_all_files_can_be_listed(files: MediaFiles) -> None:
    """By first-level directory; other files are left out."""
    kept = {hashlib.sha256(bytes([number])).digest() for number in range(50)}
    for number in range(50):
        save(files, bytes([number]))
    other = files.directory / "sha256" / "lost+found" / "x"
    other.mkdir(parents=True)
    (other / "y").write_bytes(b"")
    listed = [sha256 for section in files.sections() for sha256 in files.list_hashes(section)]
    assert len(listed) == 50
    assert set(listed) == kept


def test_a_file_is_written_in_pieces(files: MediaFiles) -> None:
    """Hash, size and head are those of the whole content."""
    incoming = files.begin()
    for piece in (b"he", b"", b"llo", b"x" * 100):
        incoming.write(piece)
    assert incoming.sha256 == hashlib.sha256(b"hello" + b"x" * 100).digest()
    assert incoming.size == 105
    assert incoming.head == (b"hello" + b"x" * 100)[:HEAD_BYTES]
    incoming.discard()


def test_a_discarded_file_is_deleted(files: MediaFiles) -> None:
    """Discarding twice is no error."""
    incoming = files.begin()
    incoming.write(b"hello")
    assert len(all_files(files)) == 1
    incoming.discard()
    incoming.discard()
    assert all_files(files) == []
    assert files.open(HELLO) is None


def test_thumbnails_are_deleted_with_their_image(files: MediaFiles) -> None:
    """Processes that have a file open can still read it."""
    save(files, b"hello")
    incoming = files.begin()
    incoming.write(b"small")
    incoming.save_thumbnail(HELLO, "96x96-crop")
    incoming.discard()
    thumbnail = files.open_thumbnail(HELLO, "96x96-crop")
    assert thumbnail is not None
    with thumbnail:
        files.delete(HELLO)
        files.delete(HELLO)
        assert all_files(files) == []
        assert thumbnail.readall() == b"small"
    assert files.open_thumbnail(HELLO, "96x96-crop") is None


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "a\0b"])
def test_invalid_names_are_refused(files: MediaFiles, name: str) -> None:
    """Such a name would be a bug: names never come from outside."""
    with pytest.raises(AssertionError):
        files.thumbnail(HELLO, name)
    with pytest.raises(AssertionError):
        files.path(name.encode())


def test_the_reserve_of_the_disk_is_respected(tmp_path: Path) -> None:
    """Writing is refused before the disk is full, with an error for the operator."""
    files = MediaFiles(tmp_path / "media", reserve=1 << 60)
    files.prepare()
    incoming = files.begin()
    with pytest.raises(DiskFull, match="no space left"):
        incoming.write(b"hello")
    incoming.discard()
    assert all_files(files) == []


def test_a_full_disk_is_reported_as_such(files: MediaFiles) -> None:
    """Other errors are raised unchanged."""
    with pytest.raises(DiskFull), files.translate_disk_full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(PermissionError), files.translate_disk_full():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_abandoned_temporary_files_are_deleted(files: MediaFiles) -> None:
    """After a day; before that, another process may still be writing them."""
    for name, age in (("old", 2 * 86_400), ("young", 3600)):
        path = files.directory / "incoming" / name
        path.write_bytes(b"")
        now = path.stat().st_mtime
        os.utime(path, (now - age, now - age))
    files.prepare()
    assert all_files(files) == ["incoming/young"]
