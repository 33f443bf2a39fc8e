"""The signing key on disk: made once, kept secret, never forgotten."""

import stat
from pathlib import Path

import pytest

from federation.keys.local_keys import LocalKeyFiles, PublishedKeys, _new_key
from federation.keys.server_keys import VALIDITY_MS, format_old_keys, make_key_document, rotate
from storage.errors import LocalError

NOW = 1_700_000_000_000


def test_the_first_start_makes_a_key_and_later_ones_keep_it(tmp_path: Path) -> None:
    """A node that changed its key at each start would be trusted by nobody."""
    files = LocalKeyFiles(tmp_path)
    made = files.load_or_create()
    assert files.load_or_create().current.public == made.current.public
    assert stat.S_IMODE(files.current.stat().st_mode) == 0o600


def test_an_empty_directory_has_no_keys(tmp_path: Path) -> None:
    """Looking makes nothing."""
    assert LocalKeyFiles(tmp_path).load() is None
    assert list(tmp_path.iterdir()) == []


def test_a_rotation_is_on_disk_before_it_is_answered(tmp_path: Path) -> None:
    """A node started again signs with the new key and publishes the old one."""
    files = LocalKeyFiles(tmp_path)
    before = files.load_or_create()
    after = files.rotate(before, NOW)
    loaded = files.load()
    assert loaded is not None
    assert loaded.current.public == after.current.public != before.current.public
    assert [(key.public, key.expired_ts) for key in loaded.old] == [(before.current.public, NOW)]


def test_a_rotation_cut_short_between_its_files_changes_nothing(tmp_path: Path) -> None:
    """The old list is written first; until the key file follows, the key in use is not an old one."""
    files = LocalKeyFiles(tmp_path)
    keys = files.load_or_create()
    files.old.write_text(format_old_keys(rotate(keys, _new_key(), NOW).old))
    loaded = files.load()
    assert loaded is not None
    assert loaded.old == ()
    again = files.rotate(loaded, NOW + 5)
    assert [(key.version, key.expired_ts) for key in again.old] == [(keys.current.version, NOW + 5)]


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """The advice is the command that mends it."""
    files = LocalKeyFiles(tmp_path)
    files.load_or_create()
    files.current.chmod(0o644)
    with pytest.raises(LocalError, match="chmod 600"):
        files.load()


def test_a_lost_key_file_is_not_replaced_in_silence(tmp_path: Path) -> None:
    """With old keys on record there was a key; a new one would look like an impostor's."""
    files = LocalKeyFiles(tmp_path)
    files.rotate(files.load_or_create(), NOW)
    files.current.unlink()
    with pytest.raises(LocalError, match="backup"):
        files.load_or_create()


def test_a_broken_key_file_is_named(tmp_path: Path) -> None:
    """The sentence names the file and not its contents."""
    files = LocalKeyFiles(tmp_path)
    files.current.write_text("ed25519 a_1 c2VjcmV0\n")
    files.current.chmod(0o600)
    with pytest.raises(LocalError) as caught:
        files.load()
    assert str(files.current) in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)


def test_a_key_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Also when it cannot even be decoded."""
    files = LocalKeyFiles(tmp_path)
    files.current.write_bytes(b"\xff\xfe")
    files.current.chmod(0o600)
    with pytest.raises(LocalError, match="not text"):
        files.load()


def test_the_published_document_is_renewed_at_half_its_life(tmp_path: Path) -> None:
    """Between two renewals everybody gets the same bytes."""
    clock = [NOW]
    files = LocalKeyFiles(tmp_path)
    keys = PublishedKeys("localhost:7676", files, files.load_or_create(), lambda: clock[0])
    first = keys.document()
    clock[0] += VALIDITY_MS // 2 - 1
    assert keys.document() is first
    clock[0] += 1
    assert keys.document() == make_key_document("localhost:7676", keys.keys, clock[0])


def test_a_rotation_is_published_at_once(tmp_path: Path) -> None:
    """The next request sees the new key and the old one with its expiry."""
    files = LocalKeyFiles(tmp_path)
    keys = PublishedKeys("localhost:7676", files, files.load_or_create(), lambda: NOW)
    old = keys.keys.current.key_id
    rotated = keys.rotate()
    document = keys.document()
    assert set(document["verify_keys"]) == {rotated.current.key_id}
    assert set(document["old_verify_keys"]) == {old}


def test_a_rotation_by_another_process_is_read(tmp_path: Path) -> None:
    """Here through a link, as where processes share one disk; it goes on from there."""
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
    # The other way round, without a look before: it rotates what is on the disk.
    now = one.rotate().current.key_id
    last = other.rotate().current.key_id
    assert one.reload() is True
    assert set(one.document()["verify_keys"]) == {last}
    assert set(one.document()["old_verify_keys"]) == {before, between, now}
    assert (second / "signing.key").is_symlink()


def test_keys_that_cannot_be_read_again_stay(tmp_path: Path) -> None:
    """A file that is just being copied, or gone: what is signed with goes on."""
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
