"""The files of the signing key."""

import stat
from pathlib import Path

import pytest

from federation.keys.local_keys import LocalKeyFiles, PublishedKeys, _new_key
from federation.keys.server_keys import VALIDITY_MS, format_old_keys, make_key_document, rotate
from storage.errors import LocalError

NOW = 1_700_000_000_000


def test_the_first_start_generates_a_key(tmp_path: Path) -> None:
    """Later starts load it."""
    files = LocalKeyFiles(tmp_path)
    made = files.load_or_create()
    assert files.load_or_create().current.public == made.current.public
    assert stat.S_IMODE(files.current.stat().st_mode) == 0o600


def test_an_empty_directory_has_no_keys(tmp_path: Path) -> None:
    """Loading creates nothing."""
    assert LocalKeyFiles(tmp_path).load() is None
    assert list(tmp_path.iterdir()) == []


def test_a_rotation_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    """After a restart the node signs with the new key and publishes the old one."""
    files = LocalKeyFiles(tmp_path)
    before = files.load_or_create()
    after = files.rotate(before, NOW)
    loaded = files.load()
    assert loaded is not None
    assert loaded.current.public == after.current.public != before.current.public
    assert [(key.public, key.expired_ts) for key in loaded.old] == [(before.current.public, NOW)]


def test_an_interrupted_rotation_changes_nothing(tmp_path: Path) -> None:
    """The list of old keys is written first; the current key is not treated as old."""
    files = LocalKeyFiles(tmp_path)
    keys = files.load_or_create()
    files.old.write_text(format_old_keys(rotate(keys, _new_key(), NOW).old))
    loaded = files.load()
    assert loaded is not None
    assert loaded.old == ()
    again = files.rotate(loaded, NOW + 5)
    assert [(key.version, key.expired_ts) for key in again.old] == [(keys.current.version, NOW + 5)]


def test_a_key_readable_by_other_users_is_refused(tmp_path: Path) -> None:
    """The advice has the command that corrects the mode."""
    files = LocalKeyFiles(tmp_path)
    files.load_or_create()
    files.current.chmod(0o644)
    with pytest.raises(LocalError, match="chmod 600"):
        files.load()


def test_a_missing_key_file_is_not_replaced(tmp_path: Path) -> None:
    """If there are old keys there was a key; a new one would look like an attack to peers."""
    files = LocalKeyFiles(tmp_path)
    files.rotate(files.load_or_create(), NOW)
    files.current.unlink()
    with pytest.raises(LocalError, match="backup"):
        files.load_or_create()


def test_an_invalid_key_file_is_named(tmp_path: Path) -> None:
    """The error does not contain its content."""
    files = LocalKeyFiles(tmp_path)
    files.current.write_text("ed25519 a_1 c2VjcmV0\n")
    files.current.chmod(0o600)
    with pytest.raises(LocalError) as caught:
        files.load()
    assert str(files.current) in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)


def test_a_binary_key_file_is_named(tmp_path: Path) -> None:
    files = LocalKeyFiles(tmp_path)
    files.current.write_bytes(b"\xff\xfe")
    files.current.chmod(0o600)
    with pytest.raises(LocalError, match="not text"):
        files.load()


def test_the_document_is_renewed_at_half_of_its_validity(tmp_path: Path) -> None:
    """Between two renewals all clients get the same bytes."""
    clock = [NOW]
    files = LocalKeyFiles(tmp_path)
    keys = PublishedKeys("localhost:7676", files, files.load_or_create(), lambda: clock[0])
    first = keys.document()
    clock[0] += VALIDITY_MS // 2 - 1
    assert keys.document() is first
    clock[0] += 1
    assert keys.document() == make_key_document("localhost:7676", keys.keys, clock[0])


def test_a_rotation_is_published_at_once(tmp_path: Path) -> None:
    """The next request gets the new key, and the old one with its expiry."""
    files = LocalKeyFiles(tmp_path)
    keys = PublishedKeys("localhost:7676", files, files.load_or_create(), lambda: NOW)
    old = keys.keys.current.key_id
    rotated = keys.rotate()
    document = keys.document()
    assert set(document["verify_keys"]) == {rotated.current.key_id}
    assert set(document["old_verify_keys"]) == {old}


def test_a_rotation_by_another_process_is_loaded(tmp_path: Path) -> None:
    """In this test through a symbolic link, as for processes that share one disk."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    for name in ("signing.key", "old_signing.keys"):
        (second / name).symlink_to(first / name)
    files = LocalKeyFiles(first), LocalKeyFiles(second)
    one = PublishedKeys("localhost:7676", files[0], files[0].load_or_create(), lambda: NOW)
    other = PublishedKeys("localhost:7676", files[1], files[1].load_or_create(), lambda: NOW)
    before = one.keys.current.key_id
    assert other.reload() is False
    between = one.rotate().current.key_id
    assert other.reload() is True
    assert set(other.document()["verify_keys"]) == {between}
    # The other way round, without a reload before: the keys on disk are rotated.
    now = one.rotate().current.key_id
    last = other.rotate().current.key_id
    assert one.reload() is True
    assert set(one.document()["verify_keys"]) == {last}
    assert set(one.document()["old_verify_keys"]) == {before, between, now}
    assert (second / "signing.key").is_symlink()


def test_keys_stay_when_a_reload_fails(tmp_path: Path) -> None:
    """The file may be missing, or being copied."""
    files = LocalKeyFiles(tmp_path)
    keys = PublishedKeys("localhost:7676", files, files.load_or_create(), lambda: NOW)
    before = keys.keys
    files.current.write_text("ed25519 a_")
    with pytest.raises(LocalError):
        keys.reload()
    assert keys.keys is before
    files.current.unlink()
    assert keys.reload() is False
    assert keys.keys is before
