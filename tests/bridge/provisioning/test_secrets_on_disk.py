"""The two secrets in files."""

import stat
from pathlib import Path

import pytest

from appservice.registration.tokens import KEY_BYTES
from bridge.provisioning.login import KEY_FILE, load_or_create_key, load_shared_secret
from storage.errors import LocalError


def test_key_is_created_once(tmp_path: Path) -> None:
    """Readable only by its owner; another key could decrypt nothing."""
    key = load_or_create_key(tmp_path)
    assert len(key) == KEY_BYTES
    assert load_or_create_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert load_or_create_key(Path(tmp_path)) != bytes(KEY_BYTES)


@pytest.mark.parametrize("data", [b"", b"zz", b"00" * 16, b"\xff" * 64])
def test_invalid_key_is_not_replaced(tmp_path: Path, data: bytes) -> None:
    """The operator has to accept the loss of stored tokens."""
    (tmp_path / KEY_FILE).write_bytes(data)
    with pytest.raises(LocalError, match="is not a key"):
        load_or_create_key(tmp_path)
    assert (tmp_path / KEY_FILE).read_bytes() == data
    with pytest.raises(LocalError, match="can't be used"):
        load_or_create_key(tmp_path / "nowhere")


def test_secret_without_the_newline(tmp_path: Path) -> None:
    """An invalid secret is refused without showing it."""
    path = tmp_path / "secret"
    path.write_text(f"{'s' * 32}\n")
    assert load_shared_secret(path) == "s" * 32
    for data in (b"short", b"", b"\xff" * 40, b"a b" * 20):
        path.write_bytes(data)
        with pytest.raises(LocalError) as refused:
            load_shared_secret(path)
        assert "short" not in str(refused.value).replace("shorter", "")
    with pytest.raises(LocalError, match="can't be read"):
        load_shared_secret(tmp_path / "nowhere")
