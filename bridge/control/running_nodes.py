"""The nodes that this user runs on this machine, so that `palaver` finds them from any directory.

Each running node has a symbolic link to its data directory in the user's runtime directory. A link without a
node that answers is left by a kill and is ignored.
"""

import os
import socket
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

FILE_NAME: Final = "palaver.sock"
"""The control socket in a node's data directory."""
_TIMEOUT: Final = 1.0


def announce(data_dir: Path, environ: Mapping[str, str]) -> None:
    """Add a node that has started. Nothing depends on it, so a failure is not reported."""
    directory = _directory(environ, create=True)
    if directory is None:
        return
    link = _link(directory, data_dir)
    new = link.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        for other in directory.iterdir():
            if not other.exists():  # its data directory was removed
                other.unlink(missing_ok=True)
        new.unlink(missing_ok=True)
        new.symlink_to(data_dir.resolve())
        new.rename(link)


def withdraw(data_dir: Path, environ: Mapping[str, str]) -> None:
    """Remove a node that has stopped."""
    directory = _directory(environ)
    if directory is not None:
        with suppress(OSError):
            _link(directory, data_dir).unlink(missing_ok=True)
            directory.rmdir()  # unless other nodes are in it


def newest(environ: Mapping[str, str]) -> Path | None:
    """The data directory of the node that was started last and still runs."""
    directory = _directory(environ)
    if directory is None:
        return None
    with suppress(OSError):
        links = [link for link in directory.iterdir() if link.is_symlink()]
        for link in sorted(links, key=lambda link: link.lstat().st_mtime_ns, reverse=True):
            data_dir = link.readlink()
            if _answers(data_dir / FILE_NAME):
                return data_dir
    return None


def _directory(environ: Mapping[str, str], *, create: bool = False) -> Path | None:
    """The directory, if it belongs to this user alone. Another user may have created one of its name in the
    common directory for temporary files."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime, "palaver") if runtime else Path(tempfile.gettempdir(), f"palaver-{os.geteuid()}")
    try:
        if create:
            path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return path if is_own else None


def _link(directory: Path, data_dir: Path) -> Path:
    return directory / sha256(os.fsencode(data_dir.resolve())).hexdigest()[:32]


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_TIMEOUT)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
