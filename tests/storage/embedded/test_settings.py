"""The settings of the embedded Postgres."""

from itertools import pairwise

from storage.embedded.initialise import server_arguments


def pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for flag, word in pairwise(words) if flag == "-c")


def test_only_the_socket_is_open() -> None:
    """No TCP, and the socket is for its owner only."""
    chosen = pairs(server_arguments("/srv/data/postgres", 100, {}))
    assert chosen["listen_addresses"] == ""
    assert chosen["unix_socket_permissions"] == "0700"


def test_commits_are_durable() -> None:
    """A node and its machine may be killed at any instant."""
    chosen = pairs(server_arguments("/srv/data/postgres", 100, {}))
    assert chosen["fsync"] == chosen["full_page_writes"] == chosen["synchronous_commit"] == "on"
    assert chosen["autovacuum"] == "on"


def test_data_of_peers_are_not_logged() -> None:
    """Neither statements nor the DETAIL of an error, which repeats values."""
    chosen = pairs(server_arguments("/srv/data/postgres", 100, {}))
    assert chosen["log_error_verbosity"] == "terse"
    assert chosen["log_min_error_statement"] == "panic"


def test_settings_can_be_overridden_except_for_the_directory() -> None:
    """The directory setting identifies the process; adoption depends on it."""
    chosen = pairs(server_arguments("/srv/data/postgres", 7, {"fsync": "off", "palaver.directory": "x"}))
    assert (chosen["fsync"], chosen["max_connections"]) == ("off", "7")
    assert chosen["palaver.directory"] == "/srv/data/postgres"


def test_paths_are_left_to_the_launcher() -> None:
    """Only the launcher knows the path by which the user of Postgres reaches the directory."""
    assert server_arguments("/srv/data/postgres", 100, {})[:4] == ["-D", "@home@/18", "-k", "@home@"]
