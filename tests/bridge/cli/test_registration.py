"""`palaver registration`."""

import asyncio
import stat
from pathlib import Path

import pytest

from bridge.node.registration import load
from tests.appservice.registration.test_run_check import FakeHomeserver, served
from tests.bridge.cli.conftest import Palaver
from tests.support.ports import lasting_port

FILE = Path("registration.yaml")


@pytest.fixture
def appservice(palaver: Palaver) -> Palaver:
    """`palaver` in a directory with the configuration of an application service."""
    configured("http://127.0.0.1:8008", lasting_port())
    return palaver


def configured(homeserver: str, port: int) -> None:
    section = f'homeserver = "{homeserver}"\ndomain = "their.server"\nport = {port}\n'
    Path("palaver.toml").write_text(f'matrix_side = "appservice"\n[appservice]\n{section}')


def test_it_writes_the_file_and_shows_the_next_steps(appservice: Palaver) -> None:
    """The file is readable for its owner only, and no token is printed."""
    result = appservice("registration")
    written = load(FILE)
    assert result.code == 0
    for part in (str(FILE.resolve()), "on their.server", "palaver registration --check"):
        assert part in result.out
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert (written.receive_ephemeral, written.rate_limited, written.protocols) == (True, False, ("agents",))
    assert all(one.exclusive for one in (*written.users, *written.aliases))
    again = appservice("registration", "--json", "-c", "palaver.toml")
    assert again.json["users"] == ["^@_agent_.+:their\\.server$"]
    assert not {written.secrets.as_token, written.secrets.hs_token} & {*result.out.split(), *again.out.split()}


def test_tokens_are_kept_unless_new_ones_are_requested(appservice: Palaver) -> None:
    """The homeserver uses them."""
    appservice("registration")
    first = load(FILE)
    appservice("registration")
    assert load(FILE) == first
    assert appservice("registration", "--new-tokens").code == 0
    assert load(FILE).secrets.as_token != first.secrets.as_token


def test_a_registration_without_offices_is_updated(appservice: Palaver) -> None:
    """If offices are enabled, `--check` reports one problem. The updated file reserves their aliases and
    keeps its tokens."""
    appservice("registration")
    first = load(FILE)
    old = "".join(line for line in FILE.read_text().splitlines(keepends=True) if "#office-" not in line).replace(
        "    - exclusive: true\n  rooms", "  rooms"
    )
    FILE.write_text(old)
    assert len(load(FILE).aliases) == 3
    assert [one for one in appservice("registration", "--check", "--json").json["wrong"] if "office" in one] == []
    with Path("palaver.toml").open("a") as file:
        file.write("[offices]\nenabled = true\n")
    result = appservice("registration", "--check", "--json")
    (missing,) = [one for one in result.json["wrong"] if "office" in one]
    assert "does not reserve the aliases of offices" in missing
    appservice("registration")
    assert load(FILE) == first


def test_a_homeserver_has_no_registration(palaver: Palaver) -> None:
    """No file is written."""
    result = palaver("registration")
    assert (result.code, 'matrix_side = "appservice"' in result.err) == (1, True)
    assert not FILE.exists()


def test_check_writes_nothing(appservice: Palaver) -> None:
    """Without a file it reports an error and generates no tokens."""
    result = appservice("registration", "--check")
    assert (result.code, "There is no registration" in result.err) == (1, True)
    assert appservice("registration", "--check", "--new-tokens").code == 1
    assert not FILE.exists()


async def test_check_reports_each_problem(palaver: Palaver) -> None:
    """With exit code 1. The exit code is 0 if the homeserver knows the node and reaches it."""
    fake, port = FakeHomeserver(), lasting_port()
    async with served(fake) as url:
        configured(url, port)
        await asyncio.to_thread(palaver, "registration")
        secrets = load(FILE).secrets
        fake.whoami = {"user_id": f"@{secrets.sender_localpart}:their.server"}
        fake.brings_to = (f"http://127.0.0.1:{port}", secrets.hs_token)
        fine = await asyncio.to_thread(palaver, "registration", "--check")
        assert (fine.code, "reaches this node" in fine.out) == (0, True)
        configured(url, lasting_port())
        wrong = await asyncio.to_thread(palaver, "registration", "--check", "--json")
        assert wrong.code == 1
        assert len(wrong.json["wrong"]) == 2
        shown = await asyncio.to_thread(palaver, "registration", "--check")
        assert [line[0] for line in shown.out.splitlines()] == ["✗", "✗"]
        assert secrets.as_token not in shown.out


def test_it_writes_the_file_for_double_puppets(appservice: Palaver) -> None:
    """The first file is unchanged. The output explains what the tokens allow, and what to enable."""
    appservice("registration")
    first = load(FILE)
    result = appservice("registration", "--double-puppet")
    second = Path("double-puppet.yaml")
    written = load(second)
    assert result.code == 0
    for part in (str(second.resolve()), "enabled = true", "full access to all accounts", "registration --check"):
        assert part in result.out
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
    assert load(FILE) == first
    assert not {written.secrets.as_token, written.secrets.hs_token} & set(result.out.split())
    assert appservice("registration", "--double-puppet", "--check").code == 1
    assert appservice("registration", "--double-puppet", "--json").json["users"] == ["^@.*:their\\.server$"]


def test_the_registrations_must_have_different_ids(palaver: Palaver) -> None:
    """A homeserver would load only one of them."""
    configured("http://127.0.0.1:8008", 7678)
    with Path("palaver.toml").open("a") as file:
        file.write('[double_puppet]\nid = "palaver"\n')
    result = palaver("registration", "--double-puppet")
    assert (result.code != 0, "have the same id" in result.err) == (True, True)
