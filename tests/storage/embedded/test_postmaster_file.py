"""The pid file, and the check whether its process is the Postgres of this cluster."""

import pytest

from storage.embedded.adoption import Ownership, PostmasterFile, ProcessInfo, classify, parse

WHOLE = "7766\n/mnt/postgres/18\n1795004041\n5432\n/mnt/postgres\n\n 10019109         8\nready   \n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WHOLE, PostmasterFile(7766, single_user=False)),
        ("7766", PostmasterFile(7766, single_user=False)),
        ("-7766\n/data\n", PostmasterFile(7766, single_user=True)),
        ("", None),
        ("\n", None),
        ("0\n", None),
        ("x7\n", None),
        ("-\n", None),
        ("\x00\x00\x00", None),
        ("99999999999999999999\n", None),
        ("٣\n", None),
    ],
)
def test_the_first_line_is_the_process_id(text: str, expected: PostmasterFile | None) -> None:
    """A file that a crash left incomplete has none."""
    assert parse(text) == expected


HERE, ELSEWHERE = (64768, 131), (64768, 132)
POSTGRES = ("/any/where/bin/postgres", "-D", "/mnt/postgres/18", "-c", "palaver.directory=/srv/data/postgres")


@pytest.mark.parametrize(
    ("sight", "claim"),
    [
        (ProcessInfo(POSTGRES, HERE), Ownership.THIS_CLUSTER),
        # Started by hand, with other settings: its working directory is this cluster.
        (ProcessInfo(("postgres", "-D", "."), HERE), Ownership.THIS_CLUSTER),
        (ProcessInfo(POSTGRES, ELSEWHERE), Ownership.UNRELATED),
        # A shell whose working directory is the cluster.
        (ProcessInfo(("-bash",), HERE), Ownership.UNRELATED),
        (ProcessInfo(("postgresql-helper",), HERE), Ownership.UNRELATED),
        # A zombie has no command line.
        (ProcessInfo((), None), Ownership.UNRELATED),
        # If the working directory cannot be read, the setting on the command line decides.
        (ProcessInfo(POSTGRES, None), Ownership.THIS_CLUSTER),
        (ProcessInfo(("postgres", "-D", "/srv/data/postgres/18"), None), Ownership.UNRELATED),
        (ProcessInfo(("postgres", "palaver.directory=/srv/other/postgres"), None), Ownership.UNRELATED),
        (ProcessInfo(("sleep", "palaver.directory=/srv/data/postgres"), None), Ownership.UNRELATED),
    ],
)
def test_a_process_is_identified_by_its_working_directory(sight: ProcessInfo, claim: Ownership) -> None:
    """A process id alone is not enough: after a reboot or in another container another process may have
    it."""
    assert classify(sight, HERE, "/srv/data/postgres") is claim
