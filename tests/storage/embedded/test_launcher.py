"""The launcher: user, files, life time and paths of the program. The programs in these tests are small
scripts in a directory that has the form of an installation."""

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.embedded import launcher
from tests.storage.conftest import RUN_AS, owner, scratch_directory
from tests.storage.embedded.nodes import end_of, namespaces_permitted, without

# Writes everything that the tests check; the last line keeps it running if requested.
REPORT = r"""#!/bin/sh
id -u; id -g; id -G
umask; pwd; env | sort | tr '\n' ' '; echo
readlink /proc/self/ns/mnt
grep -E 'Cap(Eff|Prm|Amb)' /proc/self/status | tr -s '\t\n' '  '; echo
for fd in /proc/$$/fd/*; do [ -e "$fd" ] && printf '%s ' "${fd##*/}"; done; echo
cut -d' ' -f6 /proc/$$/stat; echo $$
dirname "$0"; echo "$@"
"""
FIELDS = (
    "uid", "gid", "groups", "umask", "directory", "environment", "namespace",
    "capabilities", "files", "session", "pid", "programs", "arguments",
)  # fmt: skip


@pytest.fixture
def accessible() -> Iterator[dict[str, Path]]:
    """Programs and a home that all users can reach."""
    with scratch_directory() as path:
        path.chmod(0o755)
        yield make_directories(path)


@pytest.fixture
def inaccessible() -> Iterator[dict[str, Path]]:
    """The same below a directory that only the user of the tests may enter, like a clone under /root."""
    with scratch_directory() as path:
        yield make_directories(path)


def make_directories(path: Path) -> dict[str, Path]:
    programs = path / "programs"
    programs.mkdir()
    (programs / "report").write_text(REPORT)
    (programs / "hang").write_text("#!/bin/sh\necho hanging >&2\nexec sleep 600\n")
    for name in ("report", "hang"):
        (programs / name).chmod(0o755)
    programs.chmod(0o755)
    home = path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, *owner())
    return {"programs": programs, "home": home}


def plan_for(place: dict[str, Path], program: str = "report", **changes: Any) -> dict[str, Any]:
    user = None
    if os.geteuid() == 0:
        entry = pwd.getpwnam(RUN_AS)
        user = {"uid": entry.pw_uid, "gid": entry.pw_gid, "groups": [entry.pw_gid]}
    return {
        "directories": {name: str(path) for name, path in place.items()},
        "user": user,
        "parent": os.getpid(),
        "program": f"@programs@/{program}",
        "arguments": ["@home@/18", "-k", "@home@", "-c", "a=@home@"],
        "log": None,
        "log_limit": 10,
        "environment": {"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        **changes,
    }


def command(plan: dict[str, Any]) -> list[str]:
    return [sys.executable, "-I", "-S", launcher.__file__, json.dumps(plan)]


def run(plan: dict[str, Any], *prefix: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*prefix, *command(plan)], check=False, stdout=subprocess.PIPE, text=True, cwd="/", **options)


def report(plan: dict[str, Any], **options: Any) -> dict[str, str]:
    done = run(plan, **options)
    assert done.returncode == 0, done.stdout
    return dict(zip(FIELDS, done.stdout.splitlines(), strict=True))


def refusal(plan: dict[str, Any], *prefix: str) -> dict[str, Any]:
    done = run(plan, *prefix)
    assert done.returncode == launcher.REFUSED, done.stdout
    fields: dict[str, Any] = json.loads(done.stdout)
    return fields


def test_root_is_given_up_permanently(accessible: dict[str, Path]) -> None:
    """The program has the user, group and groups of Postgres and no capability in any set. For an ordinary
    user nothing changes."""
    seen = report(plan_for(accessible))
    user, group = owner()
    assert (seen["uid"], seen["gid"]) == (str(user), str(group))
    if os.geteuid() == 0:
        assert seen["groups"] == str(group)
        assert set(seen["capabilities"].split()) == {"CapEff:", "CapPrm:", "CapAmb:", "0" * 16}
    assert seen["umask"] == "0077"


def test_nothing_of_the_node_is_inherited(accessible: dict[str, Path]) -> None:
    """Neither its environment nor an open file, not even an inheritable one."""
    read, write = os.pipe()
    try:
        os.set_inheritable(write, True)
        seen = report(plan_for(accessible), pass_fds=(write,), env={**os.environ, "SECRET": "s3cret"})
    finally:
        os.close(read)
        os.close(write)
    variables = {word.split("=")[0] for word in seen["environment"].split()}
    assert variables <= {"LC_ALL", "PATH", "PWD", "SHLVL", "_", "OLDPWD"}
    # The shell keeps its script open.
    assert set(seen["files"].split()) <= {"0", "1", "2", "10", "255"}
    assert str(write) not in seen["files"].split() or write in {10, 255}


def test_it_leads_its_own_session(accessible: dict[str, Path]) -> None:
    """Ctrl-C in the node's terminal does not reach it."""
    seen = report(plan_for(accessible))
    assert seen["session"] == seen["pid"]


def test_accessible_directories_are_used_directly(accessible: dict[str, Path]) -> None:
    """No private namespace is created; placeholders are replaced only at the beginning of an argument."""
    seen = report(plan_for(accessible))
    home = str(accessible["home"])
    assert seen["namespace"] == str(Path("/proc/self/ns/mnt").readlink())
    assert (seen["directory"], seen["programs"]) == (home, str(accessible["programs"]))
    assert seen["arguments"] == f"{home}/18 -k {home} -c a=@home@"


def test_inaccessible_directories_are_mounted_in_a_namespace(inaccessible: dict[str, Path]) -> None:
    """As root, without changing a mode or a mount of the machine. An ordinary user needs none of it."""
    before = Path("/proc/self/mounts").read_text()
    modes = [path.stat().st_mode for path in (inaccessible["home"].parent, *inaccessible.values())]
    if os.geteuid() == 0 and not namespaces_permitted():
        assert refusal(plan_for(inaccessible))["kind"] == "closed"
        return
    seen = report(plan_for(inaccessible))
    if os.geteuid() == 0:
        assert seen["namespace"] != str(Path("/proc/self/ns/mnt").readlink())
        assert seen["directory"] != str(inaccessible["home"])
        assert Path(seen["directory"]).name == inaccessible["home"].name
        assert Path(seen["programs"]).parent == Path(seen["directory"]).parent
        assert seen["arguments"].startswith(f"{seen['directory']}/18 ")
    else:
        assert seen["directory"] == str(inaccessible["home"])
    assert Path("/proc/self/mounts").read_text() == before
    assert [path.stat().st_mode for path in (inaccessible["home"].parent, *inaccessible.values())] == modes


def test_the_mounted_home_is_the_real_directory(accessible: dict[str, Path], inaccessible: dict[str, Path]) -> None:
    """Files that the program writes there exist for the node, and the programs are read-only."""
    private = namespaces_permitted() and os.geteuid() == 0
    place = inaccessible if private else accessible
    script = place["programs"] / "write"
    script.write_text('#!/bin/sh\ntouch made; touch "$(dirname "$0")/made" 2>&1; echo done\n')
    script.chmod(0o755)
    if private:
        place["programs"].chmod(0o777)
    done = run(plan_for(place, "write"), stderr=subprocess.STDOUT)
    assert done.stdout.splitlines()[-1] == "done"
    assert (place["home"] / "made").stat().st_uid == owner()[0]
    if private:
        assert "Read-only file system" in done.stdout
        assert not (place["programs"] / "made").exists()


def test_without_namespaces_the_inaccessible_directory_is_named(inaccessible: dict[str, Path]) -> None:
    """Without CAP_SYS_ADMIN the launcher refuses and names the first one. An ordinary user needs no
    namespace."""
    plan = plan_for(inaccessible)
    if os.geteuid() == 0:
        fields = refusal(plan, *without("sys_admin"))
        assert fields == {
            "kind": "closed",
            "directory": str(inaccessible["home"].parent),
            "why": "[Errno 1] unshare: Operation not permitted",
        }
    else:
        assert report(plan)["directory"] == str(inaccessible["home"])


def test_without_the_capability_to_change_the_user_it_refuses(accessible: dict[str, Path]) -> None:
    """As in a container with a restricted root. An ordinary user changes nothing."""
    plan = plan_for(accessible)
    if os.geteuid() == 0:
        fields = refusal(plan, *without("setuid"))
        assert fields == {"kind": "identity", "error": "[Errno 1] Operation not permitted"}
    else:
        assert report(plan)["uid"] == str(os.geteuid())


def test_a_program_that_may_not_be_executed_is_named(accessible: dict[str, Path]) -> None:
    """For example, one installed with a restrictive umask."""
    (accessible["programs"] / "report").chmod(0o600)
    fields = refusal(plan_for(accessible))
    assert fields == {"kind": "closed", "directory": str(accessible["programs"] / "report"), "why": "its own mode"}


def test_system_errors_are_passed_on(accessible: dict[str, Path]) -> None:
    """With the errno, by which the node recognises a full disk."""
    fields = refusal(plan_for(accessible, log="@home@/missing/log"))
    assert fields["kind"] == "system"
    assert fields["errno"] == 2
    assert "missing/log" in fields["error"]


def test_without_its_parent_it_does_not_start(accessible: dict[str, Path]) -> None:
    """If the node died before the parent-death signal was set, the program would be an orphan."""
    assert refusal(plan_for(accessible, parent=1)) == {"kind": "orphan"}


async def test_it_dies_with_its_parent(accessible: dict[str, Path]) -> None:
    """It gets SIGINT when the node is killed, also if the node ignores SIGINT."""
    script = (
        "import json, os, subprocess, sys, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "words = json.loads(sys.argv[1])\n"
        "plan = json.loads(words[-1])\n"
        "plan['parent'] = os.getpid()\n"
        "child = subprocess.Popen([*words[:-1], json.dumps(plan)], stdout=subprocess.PIPE,"
        " stderr=subprocess.STDOUT)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    words = json.dumps(command(plan_for(accessible, "hang")))
    parent = subprocess.Popen([sys.executable, "-c", script, words], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    await end_of(pid)


def test_the_log_belongs_to_the_user_of_postgres_and_is_rotated(accessible: dict[str, Path]) -> None:
    """A short log is appended to; one rotated file is kept."""
    home = accessible["home"]
    script = accessible["programs"] / "talk"
    script.write_text("#!/bin/sh\necho out; echo err >&2\n")
    script.chmod(0o755)
    plan = plan_for(accessible, "talk", log="@home@/log")
    for expected in ("out\nerr\n", "out\nerr\nout\nerr\n", "out\nerr\n"):
        assert run(plan).stdout == ""
        assert (home / "log").read_text() == expected
    assert (home / "log.1").read_text() == "out\nerr\nout\nerr\n"
    found = (home / "log").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (owner()[0], 0o600)


def test_a_symbolic_link_as_log_is_not_followed(accessible: dict[str, Path]) -> None:
    """Otherwise its creator could append the output to any file of the user of Postgres."""
    (accessible["home"] / "log").symlink_to("elsewhere")
    assert refusal(plan_for(accessible, log="@home@/log"))["kind"] == "system"
    assert not (accessible["home"] / "elsewhere").exists()


@pytest.mark.parametrize(
    ("text", "filled"),
    [("@home@/18", "/h/18"), ("@home@", "/h"), ("-D", "-D"), ("a=@home@", "a=@home@"), ("@programs@/x", "/p/x")],
)
def test_placeholders_are_replaced_at_the_beginning_of_an_argument(text: str, filled: str) -> None:
    """A path that contains such a placeholder is not expanded again."""
    assert launcher.expand(text, {"home": "/h", "programs": "/p"}) == filled
