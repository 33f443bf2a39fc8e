"""One process of an agent, from start to end."""

import asyncio
import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from bridge.agents.local import process as process_module
from bridge.agents.local.output import Exited, NotStarted, Signalled, Termination
from tests.bridge.agents.running import TIMEOUT, Runner, end_of, is_alive, open_files, process_in, until_closed


async def test_input_output_progress_and_exit_code() -> None:
    """Prompt on standard input, answer on standard output, progress on standard error."""
    runner = Runner()
    ran = await runner.sh('read -r line; echo working >&2; echo "<$line>"; exit 3', stdin=b"do this\n")
    assert (ran.ending, ran.output.text, ran.stderr) == (Exited(3), "<do this>\n", "working")
    await runner.until("working")


async def test_the_environment_is_the_given_one(tmp_path: Path) -> None:
    """It contains nothing of the node's, which may have secrets."""
    os.environ["PALAVER_SECRET_OF_THE_NODE"] = "hidden"
    try:
        ran = await Runner().run("env", environment={"WHAT": "a b\nc", "NOT_UTF_8": "\udcff"}, directory=tmp_path)
    finally:
        del os.environ["PALAVER_SECRET_OF_THE_NODE"]
    assert sorted(ran.output.text.splitlines()) == sorted(
        ["NOT_UTF_8=\ufffd", "PATH=/usr/local/bin:/usr/bin:/bin", "WHAT=a b", "c"]
    )


async def test_the_working_directory(tmp_path: Path) -> None:
    """Also for a program with a relative path."""
    (tmp_path / "here").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "here").chmod(0o700)
    ran = await Runner().run("./here", directory=tmp_path)
    assert ran.output.text == f"{tmp_path.resolve()}\n"


async def test_a_node_with_many_open_files_can_run_commands() -> None:
    """`select` accepts no descriptor above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as opened:
            for _ in range(1_100):
                opened.enter_context(Path(os.devnull).open())
            ran = await Runner().sh("echo done")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (ran.ending, ran.output.text) == (Exited(0), "done\n")


async def test_the_command_inherits_no_open_file(tmp_path: Path) -> None:
    """Only the standard streams, which are pipes and can also be opened by name."""
    with (tmp_path / "file").open() if (tmp_path / "file").exists() else (tmp_path / "file").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        ran = await Runner().sh("ls /proc/$$/fd; cat /dev/stdin; echo end > /dev/stderr", stdin=b"in")
    assert (ran.output.text, ran.stderr) == ("0\n1\n2\nin", "end")


async def test_the_command_has_its_own_session() -> None:
    """Ctrl-C in the node's terminal does not reach it, and it leads its process group."""
    ran = await Runner().run(
        sys.executable, "-c", "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0), os.isatty(0))"
    )
    assert ran.output.text == "True False\n"


async def test_signals_have_their_defaults() -> None:
    """Python ignores SIGPIPE, and children inherit that: `yes | head` would fail."""
    ran = await Runner().sh("yes | head -n 1; grep SigIgn /proc/self/status", output=1000)
    said, _, ignored = ran.output.text.partition("\nSigIgn:\t")
    assert said == "y"
    # Signals 32 and 33 belong to the C library: the process that started the tests may ignore them, and that
    # cannot be undone.
    assert int(ignored, 16) & ~(0b11 << 31) == 0


# -- sizes --


async def test_large_input_and_output_do_not_deadlock() -> None:
    """The process writes before its input is read, and the other way round."""
    big = os.urandom(3 << 20).hex().encode()
    ran = await Runner().run("cat", stdin=big, output=1 << 30)
    assert ran.output.text.encode() == big
    ran = await Runner().sh("cat >/dev/null; head -c 5000000 /dev/zero | tr '\\0' x", stdin=big, output=1 << 30)
    assert len(ran.output.text) == 5_000_000
    ran = await Runner().sh("head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; cat", stdin=big, output=10)
    assert (ran.ending, ran.output.total) == (Exited(0), 3_000_000 + len(big))


@pytest.mark.parametrize("script", ["exec <&-; echo done", "true; echo done", "head -c 10 >/dev/null; echo done"])
async def test_a_process_need_not_read_its_input(script: str) -> None:
    """It may close or ignore it."""
    ran = await Runner().sh(script, stdin=b"x" * (3 << 20))
    assert (ran.ending, ran.output.text) == (Exited(0), "done\n")


async def test_long_output_is_cut_in_the_middle() -> None:
    """Only the limit is captured."""
    ran = await Runner().sh("head -c 100000 /dev/zero | tr '\\0' a; printf zzz", output=10)
    assert ran.output.text == "aaaaa\n[… 99993 bytes left out …]\naazzz"


async def test_a_process_that_writes_without_end_is_stopped() -> None:
    """Long before its time limit."""
    ran = await Runner().run("yes", output=1000)
    assert ran.ending is Termination.FLOOD
    assert ran.output.total < 3 * process_module.MIN_FLOOD_BYTES


async def test_invalid_utf_8_is_replaced() -> None:
    """In both streams."""
    runner = Runner()
    ran = await runner.sh(r"printf 'a\377b'; printf 'c\377d\n' >&2")
    assert (ran.output.text, ran.stderr) == ("a\ufffdb", "c\ufffdd")


# -- ends --


async def test_an_end_by_a_signal_is_reported() -> None:
    """A signal of another process."""
    assert (await Runner().sh("kill -SEGV $$")).ending == Signalled(11, "SIGSEGV")


async def test_the_time_limit_stops_the_process(tmp_path: Path) -> None:
    """With SIGTERM first: what it writes then is still captured."""
    ran = await Runner().sh(
        "trap 'echo interrupted; exit 7' TERM; echo started; while :; do sleep 0.01; done", seconds=1.0
    )
    assert (ran.ending, ran.output.text) == (Termination.TIME_LIMIT, "started\ninterrupted\n")


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """With its children, after the grace period."""
    ran = await Runner().sh(
        f"trap '' TERM; sleep 1000 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/it; wait",
        seconds=0.5, grace=0.2,
    )  # fmt: skip
    assert ran.ending is Termination.TIME_LIMIT
    assert not is_alive(await process_in(tmp_path / "it"))
    assert not is_alive(await process_in(tmp_path / "child"))


async def test_a_stopped_process_is_ended() -> None:
    """It is continued, so that it receives SIGTERM."""
    assert (await Runner().sh("kill -STOP $$", seconds=0.5)).ending is Termination.TIME_LIMIT


async def test_cancellation_ends_the_process(tmp_path: Path) -> None:
    """When the cancellation is complete, nothing runs any more."""
    runner = Runner()
    task = asyncio.create_task(runner.sh(f"echo $$ > {tmp_path}/it; echo ready >&2; sleep 1000"))
    await runner.until("ready")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(await process_in(tmp_path / "it"))


async def test_grandchildren_with_open_pipes_are_ended(tmp_path: Path) -> None:
    """The answer does not wait for them, and no output is lost."""
    ran = await Runner().sh(f"sleep 1000 & echo $! > {tmp_path}/child; echo answer")
    assert (ran.ending, ran.output.text) == (Exited(0), "answer\n")
    assert not is_alive(await process_in(tmp_path / "child"))


async def test_a_daemon_is_ended(tmp_path: Path) -> None:
    """Its parent has ended, and its session, group and files are its own."""
    ran = await Runner().sh(
        f"setsid sh -c 'sh -c \"echo \\$\\$ >{tmp_path}/daemon; exec sleep 99\" </dev/null >/dev/null 2>&1 &'"
        f"; until [ -s {tmp_path}/daemon ]; do sleep 0.01; done; echo answer"
    )
    assert ran.output.text == "answer\n"
    assert not is_alive(await process_in(tmp_path / "daemon"))


async def test_a_killed_supervisor_takes_the_process_along(tmp_path: Path) -> None:
    """The end of the process is unknown, and the node does not wait for it."""
    runner = Runner()
    task = asyncio.create_task(
        runner.sh(f"sleep 1000 & echo $! > {tmp_path}/child; echo $$ $PPID > {tmp_path}/it; wait")
    )
    child = await process_in(tmp_path / "child")
    async with asyncio.timeout(TIMEOUT):
        while not (tmp_path / "it").exists() or len((tmp_path / "it").read_text().split()) < 2:
            await asyncio.sleep(0.01)
    it, supervisor = map(int, (tmp_path / "it").read_text().split())
    os.kill(supervisor, 9)
    assert (await task).ending is Termination.LOST
    await end_of(it)
    await end_of(child)


# -- what cannot be started --


async def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    """The requester gets a reason without a path, the operator one with it."""
    (tmp_path / "text").write_text("no program")
    for words, directory, reason, problem, code in (
        (("no-such-program",), tmp_path, "was not found", "no-such-program", 127),
        ((str(tmp_path / "text"),), tmp_path, "could not be run", "Permission denied", 126),
        (("true",), tmp_path / "none", "directory", str(tmp_path), 126),
        (("",), tmp_path, "was not found", "not found", 127),
    ):
        ending = (await Runner().run(*words, directory=directory)).ending
        assert isinstance(ending, NotStarted)
        assert reason in ending.reason
        assert str(tmp_path) not in ending.reason
        assert problem in ending.problem
        assert ending.code == code


async def test_no_more_open_files() -> None:
    """No exception, and nothing is left open."""
    # The event loop opens some permanently with its first process.
    await Runner().run("true")
    before = open_files()
    with _files_left(4):
        ending = (await Runner().run("true")).ending
    assert isinstance(ending, NotStarted)
    assert os.strerror(errno.EMFILE) in ending.problem
    await until_closed(before)


@contextmanager
def _files_left(number: int) -> Iterator[None]:
    """Leave this many free descriptors. A limit alone is not enough: some below it may be free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + number, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(number):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in taken:
            os.close(one)


# -- files --


async def test_a_value_that_cannot_be_a_variable_is_in_a_file(tmp_path: Path) -> None:
    """Named by a variable, readable only for its user, and removed with the process."""
    ran = await Runner().sh(
        'cat "$CONTEXT_FILE"; echo; stat -c %a "$(dirname "$CONTEXT_FILE")"; echo "$CONTEXT_FILE" >&2',
        files={"CONTEXT_FILE": "a\0b" + "x" * 300_000},
        output=1 << 20,
    )
    assert ran.output.text == "a\0b" + "x" * 300_000 + "\n700\n"
    assert not Path(ran.stderr).exists()
    assert not Path(ran.stderr).parent.exists()


async def test_nothing_is_left_open() -> None:
    """After any number of processes, however they end."""
    await Runner().run("true")
    before = open_files()
    for _ in range(3):
        await Runner().run("true")
        await Runner().run("no-such-program")
        await Runner().sh("sleep 1000", seconds=0.1)
    await until_closed(before)
