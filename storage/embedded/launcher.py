"""Turns itself into a Postgres program: without root, bound to the life of the node, reaching its files.

The node runs this file as a process of its own (`python -I -S launcher.py PLAN`, standard library only),
because changing the user, the mount namespace and the parent-death signal are things that a process can only
do to itself. PLAN is the JSON that `launch.py` writes. On success there is no output and the process has
become the program; a refusal is one JSON object on standard output and the exit status REFUSED.
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

# Directories that nearly every machine has and nothing of Postgres' lives in; the first usable one is
# covered, in the private namespace only, by a small file system of our own.
COVERABLE = ("/mnt", "/media", "/srv", "/opt", "/tmp")  # noqa: S108 - a mount point, no file is made in it


class Refusal(Exception):
    """The program cannot be started; `fields` tell the node what to say to a person."""

    def __init__(self, kind: str, **fields: str | int | None) -> None:
        super().__init__(kind)
        self.fields = {"kind": kind, **fields}


def main(argument: str) -> NoReturn:
    try:
        become(json.loads(argument))
    except Refusal as refusal:
        fields = refusal.fields
    except OSError as error:
        fields = {"kind": "system", "error": str(error), "errno": error.errno}
    sys.stdout.write(json.dumps(fields))
    sys.stdout.flush()
    os._exit(REFUSED)


def become(plan: dict[str, Any]) -> NoReturn:
    # A session of its own keeps Ctrl-C in the node's terminal away from Postgres, which the node stops last.
    os.setsid()
    os.umask(0o077)
    close_inherited()
    places: dict[str, str] = plan["places"]
    if plan["user"] is not None:
        places = reachable_places(places, plan["user"])
        drop_privileges(plan["user"])
    die_with(plan["parent"])
    program = filled(plan["program"], places)
    os.chdir(places["home"])
    # With the rights that it really has: asked the usual way, the kernel would leave capabilities out.
    if not os.access(program, os.X_OK, effective_ids=True):
        raise Refusal("closed", directory=filled(plan["program"], plan["places"]), why="its own mode")
    if plan["log"] is not None:
        write_into(filled(plan["log"], places), plan["log_limit"])
    words = [program, *(filled(word, places) for word in plan["arguments"])]
    os.execve(program, words, plan["environment"])  # noqa: S606 - to become this program is what this file is for


def close_inherited() -> None:
    """Keep the node's files and sockets from Postgres, whichever way the node's event loop starts a process.

    uvloop lets copies of the pipes pass, and the node would never see the end of its child's output.
    """
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2:
            # The directory's own handle is in the list and closed already.
            with contextlib.suppress(OSError):
                os.close(int(entry.name))


def filled(text: str, places: dict[str, str]) -> str:
    """`@home@/18` with the directory that `home` has for this process."""
    if not text.startswith("@"):
        return text
    name, rest = text[1:].split("@", 1)
    return places[name] + rest


def reachable_places(places: dict[str, str], user: dict[str, Any]) -> dict[str, str]:
    closed = first_closed(list(places.values()), user)
    if closed is None:
        return places
    try:
        return private_places(places, user)
    except OSError as error:
        raise Refusal("closed", directory=closed, why=str(error)) from error


def first_closed(paths: list[str], user: dict[str, Any]) -> str | None:
    """The first directory on the way to these that the user may not enter. The kernel is asked."""
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
                    # The dot asks for permission to enter, not only to see.
                    os.close(os.open(f"{directory}/.", os.O_PATH))
                except OSError:
                    return str(directory)
    finally:
        os.seteuid(0)
        os.setegid(0)
    return None


def private_places(places: dict[str, str], user: dict[str, Any]) -> dict[str, str]:
    """The same directories where the user can reach them, in a mount namespace that only this process sees.

    Nothing changes on the machine: the mounts are propagated nowhere and end with the last Postgres process.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
        words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
        if libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")

    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    usable = (place for place in COVERABLE if Path(place).is_dir() and first_closed([place], user) is None)
    cover = next(usable, None)
    if cover is None:
        raise OSError(0, f"none of {', '.join(COVERABLE)} can be covered")
    # Opened after unshare, because only mounts of the own namespace can be bound, and before the cover,
    # because the cover may hide them.
    handles = {name: os.open(path, os.O_PATH | os.O_DIRECTORY) for name, path in places.items()}
    mount("palaver", cover, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
    private = {}
    for name, handle in handles.items():
        # The same names side by side, since the programs look for their libraries relative to themselves.
        target = Path(cover) / Path(places[name]).name
        target.mkdir()
        target.chmod(0o755)  # the umask had taken that away
        private[name] = str(target)
        mount(f"/proc/self/fd/{handle}", private[name], None, MS_BIND)
        os.close(handle)
        if name != "home":
            # A second lock: the programs belong to another user and are unwritable all the same. It fails
            # where the outer mount carries flags that a remount may not drop.
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


def die_with(parent: int) -> None:
    """Ask for SIGINT, Postgres' fast shutdown, when the node dies. Changing the user would have undone it."""
    # The node may have been started with SIGINT ignored (a background job of a script); that is inherited.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        # The node died before the kernel knew of our wish; nobody will ever stop what we would start.
        raise Refusal("orphan")


def write_into(log: str, limit: int) -> None:
    """Append standard output and error to the log, opened by the user it belongs to, and bounded here."""
    file = Path(log)
    if file.exists() and file.stat().st_size > limit:
        file.replace(log + ".1")
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


if __name__ == "__main__":
    main(sys.argv[1])
