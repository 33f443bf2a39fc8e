"""What the private Postgres is told at every start."""

from itertools import pairwise

from storage.embedded.initialise import server_arguments


def pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for flag, word in pairwise(words) if flag == "-c")


def test_nothing_is_reachable_but_the_socket() -> None:
    """No TCP, and the socket is for its owner alone."""
    chosen = pairs(server_arguments("/srv/data/postgres", 100, {}))
    assert chosen["listen_addresses"] == ""
    assert chosen["unix_socket_permissions"] == "0700"


def test_what_is_committed_is_on_the_disk() -> None:
    """A node may be killed at any instant, and so may its machine."""
    chosen = pairs(server_arguments("/srv/data/postgres", 100, {}))
    assert chosen["fsync"] == chosen["full_page_writes"] == chosen["synchronous_commit"] == "on"
    assert chosen["autovacuum"] == "on"


def test_what_peers_send_is_not_logged() -> None:
    """Neither statements nor the DETAIL of an error, which repeats values."""
    chosen = pairs(server_arguments("/srv/data/postgres", 100, {}))
    assert chosen["log_error_verbosity"] == "terse"
    assert chosen["log_min_error_statement"] == "panic"


def test_settings_can_be_outranked_except_for_the_mark() -> None:
    """The mark says which directory the process belongs to; adoption depends on it."""
    chosen = pairs(server_arguments("/srv/data/postgres", 7, {"fsync": "off", "palaver.directory": "x"}))
    assert (chosen["fsync"], chosen["max_connections"]) == ("off", "7")
    assert chosen["palaver.directory"] == "/srv/data/postgres"


def test_paths_are_left_to_the_launcher() -> None:
    """Only it knows under which path the user of the child reaches the directory."""
    assert server_arguments("/srv/data/postgres", 100, {})[:4] == ["-D", "@home@/18", "-k", "@home@"]
