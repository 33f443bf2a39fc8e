"""The published command `a2c-computer`, typed into a terminal as in `docs/offices.md`."""

import asyncio
import fcntl
import json
import os
import pty
import re
import secrets
import shlex
import struct
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.process.agent_nodes import AgentNode, agent_nodes, until
from tests.support.node import ROOT
from tests.support.postgres import Server
from tests.support.smcp import Peers, processes
from tests.support.smcp.environments import python
from tests.support.smcp.expectations import Expectations
from tests.support.smcp.walk_membership import connect

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office cli")]

VERSION = "0.4.2"
OFFICES = """
[offices]
enabled = true
"""
TIMEOUT = 60.0
TOOLS = Path(processes.__file__).with_name("tools_server.py")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()=>][A-Z0-9]?)")


@pytest.fixture(scope="module")
def told() -> tuple[str, str, dict[str, Any]]:
    """Return what the page says to type: the command, the line at its prompt, and the tools file."""
    page = (ROOT / "docs" / "offices.md").read_text("utf-8")
    [command] = re.findall(r"^    (a2c-computer run .*)$", page, re.MULTILINE)
    [line] = re.findall(r"^    (socket join .*)$", page, re.MULTILINE)
    [tools] = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return command, line, json.loads(tools)


@dataclass
class Terminal:
    """A program in its own terminal, which is closed with it."""

    process: asyncio.subprocess.Process
    master: int
    text: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self) -> None:
        try:
            self.text += os.read(self.master, 65_536).decode("utf-8", "replace")
        except OSError:  # nobody has the other end any more
            asyncio.get_running_loop().remove_reader(self.master)
        self._news.set()

    def type(self, line: str) -> None:
        # The Enter key, as a terminal sends it.
        os.write(self.master, f"{line}\r".encode())

    async def shows(self, part: str) -> str:
        """Return the terminal's output once it contains this text."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while part not in (seen := _ESCAPE.sub("", self.text)):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{part!r} was not shown: {_ESCAPE.sub('', self.text)[-3_000:]}") from None
        return seen

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)


async def terminal(command: list[str], directory: Path) -> Terminal:
    """The environment has no variables or files of the user who runs the tests."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOOLS_TELL": str(directory / "told"),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=directory, env=surroundings, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    made = Terminal(process, master)
    asyncio.get_running_loop().add_reader(master, made.read)
    return made


@dataclass
class Hosted:
    node: AgentNode
    token: str
    office_id: str

    @property
    def expectations(self) -> Expectations:
        url = self.node.url("", "http")
        return Expectations(url=url, token=self.token, office=self.office_id, agent_id="planner-7")

    async def offices(self) -> dict[str, Any]:
        """Return the members of each office, from `palaver offices list`."""
        _, said = await self.node.palaver("offices", "list", "--json")
        return {one["office_id"]: one for one in json.loads(said)["offices"]}


@pytest.fixture(scope="module")
async def hosted(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[Hosted]:
    node = {"name": "kitchen.local", "more": OFFICES}
    async with agent_nodes(palaver, postgres_server, migrated_template, node) as [one]:
        code, said = await one.palaver("offices", "token", "create", "the lab", "--json")
        assert code == 0, said
        yield Hosted(one, json.loads(said)["token"], f"build-{secrets.token_hex(4)}")


async def test_a_computer_is_started_as_the_page_says(
    hosted: Hosted, told: tuple[str, str, dict[str, Any]], tmp_path: Path
) -> None:
    """It connects, joins under the typed name, and an Agent calls its tools; it leaves, and exits."""
    command, line, tools = told
    [server] = tools["servers"].values()
    server["server_parameters"] = {"command": str(python(VERSION)), "args": [str(TOOLS)]}
    server["server_parameters"]["env"] = {"TOOLS_TELL": str(tmp_path / "told")}
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    assert "http://localhost:7676" in command
    typed = command.replace("http://localhost:7676", hosted.node.url("", "http"))
    assert "token:TOKEN" in typed
    words = shlex.split(typed.replace("TOKEN", hosted.token))
    words[0] = str(python(VERSION).with_name(words[0]))
    assert "build-7 bench" in line

    shown = await terminal(words, tmp_path)
    try:
        await shown.shows("Connected via CLI options")
        await shown.shows("Enter interactive mode")
        assert hosted.office_id not in await hosted.offices()
        shown.type(line.replace("build-7", hosted.office_id))
        await shown.shows("Joined office")
        there = (await hosted.offices())[hosted.office_id]
        assert (there["agent"], there["computers"]) == (None, ["bench"])

        async with Peers(tmp_path / "peers") as peers:
            agent = await peers.agent(VERSION)
            await connect(agent, hosted.expectations)
            await agent.do("join", office=hosted.office_id, name=agent.name)
            [name] = tools["servers"]
            found = [tool["name"] for tool in (await agent.do("tools", computer="bench"))["tools"]]
            assert f"{name}__add" in found
            asked = {"computer": "bench", "tool": f"{name}__add", "params": {"a": 2, "b": 3}, "limit": 30}
            result = await agent.do("call", **asked)
            assert (result["isError"], result["structuredContent"]) == (False, {"result": 5})
            shown.type("socket leave")
            assert await agent.until("notify:leave_office") == {"office_id": hosted.office_id, "computer": "bench"}
        await shown.shows("Left office")
        shown.type("exit")
        async with asyncio.timeout(TIMEOUT):
            assert await shown.process.wait() == 0
    finally:
        await shown.close()

    async def nobody_there() -> bool:
        return hosted.office_id not in await hosted.offices()

    await until(nobody_there)


async def test_after_a_lost_connection_it_joins_again(
    hosted: Hosted, told: tuple[str, str, dict[str, Any]], tmp_path: Path
) -> None:
    """It reconnects by itself, but is in no office until the user joins again."""
    command, line, _ = told
    (tmp_path / "tools.json").write_text(json.dumps({"servers": {}}))
    typed = command.replace("http://localhost:7676", hosted.node.url("", "http"))
    words = shlex.split(typed.replace("TOKEN", hosted.token))
    words[0] = str(python(VERSION).with_name(words[0]))
    join = line.replace("build-7", f"{hosted.office_id}-again")

    async def there() -> bool:
        return f"{hosted.office_id}-again" in await hosted.offices()

    shown = await terminal(words, tmp_path)
    try:
        await shown.shows("Enter interactive mode")
        shown.type(join)
        await shown.shows("Joined office")
        await hosted.node.kill()
        await hosted.node.start()
        assert not await there()

        async def joined() -> bool:
            # Until it has connected, it reports that.
            shown.type(join)
            return await there()

        await until(joined)
    finally:
        await shown.close()


async def test_a_wrong_token_is_reported_in_the_terminal(
    hosted: Hosted, told: tuple[str, str, dict[str, Any]], tmp_path: Path
) -> None:
    """And the command exits."""
    command, _, tools = told
    (tmp_path / "tools.json").write_text(json.dumps({**tools, "servers": {}}))
    typed = command.replace("http://localhost:7676", hosted.node.url("", "http")).replace("TOKEN", "wrong")
    words = shlex.split(typed)
    words[0] = str(python(VERSION).with_name(words[0]))
    shown = await terminal(words, tmp_path)
    try:
        await shown.shows("failed to connect")
        async with asyncio.timeout(TIMEOUT):
            assert await shown.process.wait() != 0
    finally:
        await shown.close()
