"""Executes a Postgres program as another user, with access to its files, and terminated when the node dies.

The node runs this file as a separate process (`python -I -S launcher.py PLAN`, standard library only),
because a process can change its user, mount namespace and parent-death signal only for itself. PLAN is the
JSON that `launch.py` writes. On success there is no output and the process executes the program. A refusal is
one JSON object on standard output and the exit status REFUSED.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

REFUSED = 120

PR_SET_PDEATHSIG = 1
CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18

# Directories that nearly every machine has and that contain nothing of Postgres. In the private namespace, a
# small file system is mounted over the first usable one.
MOUNT_POINTS = ("/mnt", "/media", "/srv", "/opt", "/tmp")  # noqa: S108 - a mount point, no file is made in it


class Refusal(Exception):
    """The program cannot be started. The node explains `fields` to the operator."""

    def __init__(self, kind: str, **fields: str | int | None) -> None:
        super().__init__(kind)
        self.fields = {"kind": kind, **fields}


def main(argument: str) -> NoReturn:
    try:
        execute(json.loads(argument))
    except Refusal as refusal:
        fields = refusal.fields
    except OSError as error:
        fields = {"kind": "system", "error": str(error), "errno": error.errno}
    sys.stdout.write(json.dumps(fields))
    sys.stdout.flush()
    os._exit(REFUSED)


def execute(plan: dict[str, Any]) -> NoReturn:
    # A new session, so that Ctrl-C in the node's terminal does not reach Postgres, which the node stops last.
    os.setsid()
    os.umask(0o077)
    close_inherited()
    directories: dict[str, str] = plan["directories"]
    if plan["user"] is not None:
        directories = reachable_directories(directories, plan["user"])
        drop_privileges(plan["user"])
    request_parent_death_signal(plan["parent"])
    program = expand(plan["program"], directories)
    os.chdir(directories["home"])
    # Checks with the effective ids: the check with the real ids would ignore capabilities.
    if not os.access(program, os.X_OK, effective_ids=True):
        raise Refusal("closed", directory=expand(plan["program"], plan["directories"]), why="its own mode")
    if plan["log"] is not None:
        redirect_output(expand(plan["log"], directories), plan["log_limit"])
    words = [program, *(expand(word, directories) for word in plan["arguments"])]
    os.execve(program, words, plan["environment"])  # noqa: S606 - executing this program is the purpose


def close_inherited() -> None:
    """Close inherited files and sockets of the node, however its event loop starts processes.

    uvloop lets the child inherit copies of the pipes, so that the node would never read the end of its
    output.
    """
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2:
            # The list includes the handle of the directory itself, which is already closed.
            with contextlib.suppress(OSError):
                os.close(int(entry.name))


def expand(text: str, directories: dict[str, str]) -> str:
    """Replace `@home@` in `@home@/18` by the path of `home` for this process."""
    if not text.startswith("@"):
        return text
    name, rest = text[1:].split("@", 1)
    return directories[name] + rest


def reachable_directories(directories: dict[str, str], user: dict[str, Any]) -> dict[str, str]:
    closed = first_inaccessible(list(directories.values()), user)
    if closed is None:
        return directories
    try:
        return mount_directories(directories, user)
    except OSError as error:
        raise Refusal("closed", directory=closed, why=str(error)) from error


def first_inaccessible(paths: list[str], user: dict[str, Any]) -> str | None:
    """The first directory on the paths that the user may not enter, checked by opening it as that user."""
    try:
        os.setgroups(user["groups"])
        os.setegid(user["gid"])
        os.seteuid(user["uid"])
    except OSError as error:
        raise Refusal("identity", error=str(error)) from error
    try:
        for path in paths:
            for directory in [*reversed(Path(path).parents), Path(path)]:
                try:
                    # The dot requires permission to enter the directory.
                    os.close(os.open(f"{directory}/.", os.O_PATH))
                except OSError:
                    return str(directory)
    finally:
        os.seteuid(0)
        os.setegid(0)
    return None


def mount_directories(directories: dict[str, str], user: dict[str, Any]) -> dict[str, str]:
    """Mount the same directories where the user can reach them, in a private mount namespace.

    The mounts are not propagated to the machine, and end with the last Postgres process.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
        words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
        if libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")

    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    usable = (path for path in MOUNT_POINTS if Path(path).is_dir() and first_inaccessible([path], user) is None)
    cover = next(usable, None)
    if cover is None:
        raise OSError(0, f"none of {', '.join(MOUNT_POINTS)} can be used as a mount point")
    # Opened after unshare, because only mounts of the same namespace can be bound, and before the tmpfs is
    # mounted, because it may hide them.
    handles = {name: os.open(path, os.O_PATH | os.O_DIRECTORY) for name, path in directories.items()}
    mount("palaver", cover, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
    private = {}
    for name, handle in handles.items():
        # The same names side by side, because the programs find their libraries by relative paths.
        target = Path(cover) / Path(directories[name]).name
        target.mkdir()
        target.chmod(0o755)  # despite the umask
        private[name] = str(target)
        mount(f"/proc/self/fd/{handle}", private[name], None, MS_BIND)
        os.close(handle)
        if name != "home":
            # Additional protection: the programs belong to another user and are not writable anyway. It fails
            # where the outer mount has flags that a remount may not remove.
            with contextlib.suppress(OSError):
                mount(None, private[name], None, MS_BIND | MS_REMOUNT | MS_RDONLY)
    return private


def drop_privileges(user: dict[str, Any]) -> None:
    try:
        os.setgroups(user["groups"])
        os.setresgid(user["gid"], user["gid"], user["gid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])
    except OSError as error:
        raise Refusal("identity", error=str(error)) from error


def request_parent_death_signal(parent: int) -> None:
    """Request SIGINT, the fast shutdown of Postgres, for the death of the node. Changing the user would reset
    this request, so it comes after that."""
    # A node that runs as a background job of a script may ignore SIGINT, which would be inherited.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        # The node died before the request; nothing would stop the program.
        raise Refusal("orphan")


def redirect_output(log: str, limit: int) -> None:
    """Redirect standard output and error to the log, and rotate it. The log is opened by the user of
    Postgres."""
    file = Path(log)
    if file.exists() and file.stat().st_size > limit:
        file.replace(log + ".1")
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


if __name__ == "__main__":
    main(sys.argv[1])
