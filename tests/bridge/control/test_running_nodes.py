"""Finding the nodes that this user runs."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bridge.cli.output import node_directory
from bridge.control.running_nodes import FILE_NAME, announce, newest, withdraw
from bridge.node.data_directory import LOCK, DataDirectory


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "run").mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run")}


@contextmanager
def running(data_dir: Path, environ: dict[str, str]) -> Iterator[None]:
    data_dir.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(data_dir / FILE_NAME))
        server.listen()
        announce(data_dir, environ)
        yield
    # The node is killed: socket and link stay.


def test_the_newest_running_node_is_found(tmp_path: Path, environ: dict[str, str]) -> None:
    """Also after a newer one was killed or stopped."""
    assert newest(environ) is None
    with ExitStack() as nodes:
        nodes.enter_context(running(tmp_path / "a", environ))
        assert newest(environ) == tmp_path / "a"
        with running(tmp_path / "b", environ):
            assert newest(environ) == tmp_path / "b"
        assert newest(environ) == tmp_path / "a"
        withdraw(tmp_path / "a", environ)
        assert newest(environ) is None
        assert (tmp_path / "run" / "palaver").is_dir(), "it has the link of the killed node"
        withdraw(tmp_path / "b", environ)
        assert not (tmp_path / "run" / "palaver").exists()


def test_commands_find_it_from_any_directory(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But not from a directory with a configuration or a node of its own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", environ["XDG_RUNTIME_DIR"])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    own = tmp_path / "here" / "data"
    assert node_directory(None) == own
    with running(tmp_path / "a", environ):
        assert node_directory(None) == tmp_path / "a"
        assert str(tmp_path / "a") in capsys.readouterr().err
        with DataDirectory(own):
            pass
        assert node_directory(None) == own
        (own / LOCK).unlink()
        monkeypatch.setenv("PALAVER_LISTENER__PORT", "7001")
        assert node_directory(None) == own
        monkeypatch.delenv("PALAVER_LISTENER__PORT")
        Path("palaver.toml").touch()
        assert node_directory(None) == own
        assert capsys.readouterr().err == ""


def test_a_directory_that_others_can_write_is_ignored(tmp_path: Path, environ: dict[str, str]) -> None:
    """They could let this user send commands to a node of theirs."""
    with running(tmp_path / "a", environ):
        (tmp_path / "run" / "palaver").chmod(0o777)
        assert newest(environ) is None


def test_a_link_in_place_of_the_directory_is_ignored(tmp_path: Path, environ: dict[str, str]) -> None:
    """Its owner is not checked."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "palaver").symlink_to(tmp_path / "elsewhere")
    with running(tmp_path / "a", environ):
        assert newest(environ) is None
    assert list((tmp_path / "elsewhere").iterdir()) == []
