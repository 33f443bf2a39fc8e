"""`palaver registration`."""

import asyncio
import stat
from pathlib import Path

import pytest

from bridge.node.registration import load
from tests.appservice.registration.test_run_check import Played, served
from tests.bridge.cli.conftest import Palaver
from tests.support.ports import lasting_port

FILE = Path("registration.yaml")


@pytest.fixture
def guest(palaver: Palaver) -> Palaver:
    """`palaver`, in a directory with the configuration of a guest."""
    configured("http://127.0.0.1:8008", lasting_port())
    return palaver


def configured(homeserver: str, port: int) -> None:
    section = f'homeserver = "{homeserver}"\ndomain = "their.server"\nport = {port}\n'
    Path("palaver.toml").write_text(f'matrix_side = "appservice"\n[appservice]\n{section}')


def test_it_writes_the_file_and_says_what_to_do(guest: Palaver) -> None:
    """For its owner alone, beside the configuration; and no token is shown."""
    said = guest("registration")
    written = load(FILE)
    assert said.code == 0
    for part in (str(FILE.resolve()), "on their.server", "palaver registration --check"):
        assert part in said.out
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert (written.receive_ephemeral, written.rate_limited, written.protocols) == (True, False, ("agents",))
    assert all(one.exclusive for one in (*written.users, *written.aliases))
    again = guest("registration", "--json", "-c", "palaver.toml")
    assert again.json["users"] == ["^@_agent_.+:their\\.server$"]
    assert not {written.secrets.as_token, written.secrets.hs_token} & {*said.out.split(), *again.out.split()}


def test_tokens_are_kept_until_others_are_asked_for(guest: Palaver) -> None:
    """The homeserver has them."""
    guest("registration")
    first = load(FILE)
    guest("registration")
    assert load(FILE) == first
    assert guest("registration", "--new-tokens").code == 0
    assert load(FILE).secrets.as_token != first.secrets.as_token


def test_one_without_offices_is_written_again(guest: Palaver) -> None:
    """Where there are offices `--check` says so, in one sentence; then it has their names, and the tokens
    that it had."""
    guest("registration")
    first = load(FILE)
    old = "".join(
        line for line in FILE.read_text().splitlines(keepends=True) if "#office-" not in line
    ).replace("    - exclusive: true\n  rooms", "  rooms")
    FILE.write_text(old)
    assert len(load(FILE).aliases) == 3
    assert [one for one in guest("registration", "--check", "--json").json["wrong"] if "office" in one] == []
    with Path("palaver.toml").open("a") as file:
        file.write("[offices]\nenabled = true\n")
    said = guest("registration", "--check", "--json")
    (missing,) = [one for one in said.json["wrong"] if "office" in one]
    assert "does not reserve the names of offices" in missing
    guest("registration")
    assert load(FILE) == first


def test_a_homeserver_needs_none(palaver: Palaver) -> None:
    """And nothing is written."""
    said = palaver("registration")
    assert (said.code, 'matrix_side = "appservice"' in said.err) == (1, True)
    assert not FILE.exists()


def test_who_looks_changes_nothing(guest: Palaver) -> None:
    """Without a file there is nothing to compare; and no tokens are made on the way."""
    said = guest("registration", "--check")
    assert (said.code, "There is no registration" in said.err) == (1, True)
    assert guest("registration", "--check", "--new-tokens").code == 1
    assert not FILE.exists()


async def test_what_is_wrong_is_said_line_by_line(palaver: Palaver) -> None:
    """With exit code 1; and 0 when the homeserver knows us and reaches us."""
    played, port = Played(), lasting_port()
    async with served(played) as url:
        configured(url, port)
        await asyncio.to_thread(palaver, "registration")
        secrets = load(FILE).secrets
        played.whoami = {"user_id": f"@{secrets.sender_localpart}:their.server"}
        played.brings_to = (f"http://127.0.0.1:{port}", secrets.hs_token)
        fine = await asyncio.to_thread(palaver, "registration", "--check")
        assert (fine.code, "reaches this node" in fine.out) == (0, True)
        configured(url, lasting_port())
        wrong = await asyncio.to_thread(palaver, "registration", "--check", "--json")
        assert wrong.code == 1
        assert len(wrong.json["wrong"]) == 2
        shown = await asyncio.to_thread(palaver, "registration", "--check")
        assert [line[0] for line in shown.out.splitlines()] == ["✗", "✗"]
        assert secrets.as_token not in shown.out


def test_it_writes_the_second_file(guest: Palaver) -> None:
    """Beside the first one, which stays; and says that it has to be enabled, and what it is worth."""
    guest("registration")
    first = load(FILE)
    said = guest("registration", "--double-puppet")
    second = Path("double-puppet.yaml")
    written = load(second)
    assert said.code == 0
    for part in (str(second.resolve()), "enabled = true", "can do all that", "registration --check"):
        assert part in said.out
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
    assert load(FILE) == first
    assert not {written.secrets.as_token, written.secrets.hs_token} & set(said.out.split())
    assert guest("registration", "--double-puppet", "--check").code == 1
    assert guest("registration", "--double-puppet", "--json").json["users"] == ["^@.*:their\\.server$"]


def test_two_registrations_are_two(palaver: Palaver) -> None:
    """With one id, or in one file, the homeserver would know one of them."""
    configured("http://127.0.0.1:8008", 7678)
    with Path("palaver.toml").open("a") as file:
        file.write('[double_puppet]\nid = "palaver"\n')
    said = palaver("registration", "--double-puppet")
    assert (said.code != 0, "have one id" in said.err) == (True, True)
