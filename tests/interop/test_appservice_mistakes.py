"""Each mistake that the operator of an attached node can make, made on purpose against a real Synapse.

`palaver run` ends with an error of its own for each, and `palaver doctor` reports the same.
"""

import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.interop.appservice_node import AppserviceNode
from tests.interop.staffed_node import FILE
from tests.support.loopback_server import LoopbackServer
from tests.support.ports import lasting_port, take
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = pytest.mark.interop
CONFIGURATION = """
server_name = "kitchen.local"
matrix_side = "appservice"
[appservice]
homeserver = "{homeserver}"
domain = "{domain}"
id = "{id}"
user_prefix = "{user_prefix}"
port = {port}
{more}
[listener]
hosts = ["127.0.0.1"]
port = {own_port}
[metrics]
enabled = false
[database]
minimum_free_space = "16MiB"
"""


class Operator:
    """A directory with a configuration, and the commands that are run there."""

    def __init__(self, palaver: Path, authority: Authority, synapse: Synapse, **said: Any) -> None:
        # Not below the directory of the test: the path of a Unix socket has 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="palaver-mistake-"))
        self.node = AppserviceNode(palaver, self.directory, lasting_port(), 0)
        (self.directory / "tls").mkdir()
        authority.write(self.directory / "tls", "ca")
        self.said = {
            "homeserver": synapse.url,
            "domain": synapse.server_name,
            "id": "palaver",
            "user_prefix": "_agent_",
            "port": lasting_port(),
            "more": "",
            "own_port": self.node.port,
            **said,
        }
        self.write()

    @property
    def registration(self) -> Path:
        return self.directory / "registration.yaml"

    def write(self, **changes: Any) -> None:
        (self.directory / FILE).write_text(CONFIGURATION.format(**{**self.said, **changes}))

    async def register(self, *options: str) -> None:
        code, answer = await self.node.cli("registration", *options)
        assert code == 0, answer

    async def told(self) -> str:
        """Return the error of `palaver run`; the doctor reports the same, and the database was not
        created."""
        code, refusal = await self.node.refused()
        assert code == 1, refusal
        sentence: str = refusal["problem"]
        assert refusal["advice"], sentence
        assert not (self.node.data / "postgres").exists(), "the database was used for an attached node"
        code, doctor = await self.node.cli("doctor")
        faults = [one["text"] for one in doctor["findings"] if one["verdict"] == "fault"]
        assert code == 1
        assert any(_core(sentence) in fault for fault in faults), (sentence, faults)
        return sentence

    async def clean_up(self) -> None:
        await self.node.clean_up()
        shutil.rmtree(self.directory, ignore_errors=True)


def _core(sentence: str) -> str:
    """Return the sentence without its prefix, in which the commands differ."""
    return sentence.partition(" does not match the configuration. ")[2] or sentence


MakeOperator = Callable[..., Operator]


@asynccontextmanager
async def operators(palaver: Path, authority: Authority, synapse: Synapse) -> AsyncIterator[MakeOperator]:
    made: list[Operator] = []

    def make(**said: Any) -> Operator:
        made.append(Operator(palaver, authority, synapse, **said))
        return made[-1]

    try:
        yield make
    finally:
        for operator in made:
            await operator.clean_up()


async def test_each_mistake_has_its_own_error(
    palaver: Path, authority: Authority, make_synapse: SynapseFactory
) -> None:
    """And has no lasting effect: after the correction the same node starts."""
    synapse = await make_synapse(start=False)
    dead = lasting_port()
    async with operators(palaver, authority, synapse) as make:
        right = make()
        deaf = make(id="deaf", user_prefix="_deaf_", more=f'url = "http://127.0.0.1:{dead}"')
        clashing = [make(id=name, user_prefix="_ghost_") for name in ("one", "two")]
        installed = (right, deaf, *clashing)
        for operator in installed:
            await operator.register()
        synapse.appservices = [operator.registration for operator in installed]
        await synapse.start()
        await synapse.settled()

        # Nothing was written.
        without = make(id="without", user_prefix="_w_")
        assert "There is no registration at" in await without.told()

        # It was written, and the homeserver does not have it.
        await without.register()
        assert "does not know the as_token (M_UNKNOWN_TOKEN)" in await without.told()

        # The file is one of another configuration.
        right.write(domain="other.server")
        assert "which the configuration requires" in await right.told()

        # Written again for another homeserver.
        text = right.registration.read_text()
        await right.register()
        assert f"The homeserver's server name is {synapse.server_name}" in await right.told()
        right.registration.write_text(text)
        right.write()

        # The homeserver cannot reach this node.
        assert f"cannot reach this node at http://127.0.0.1:{dead}" in await deaf.told()

        # Two of its services reserve the same names.
        for operator in clashing:
            assert "reserves users that begin with _ghost_ too" in await operator.told()

        # One of the tokens was edited, the one or the other.
        right.registration.write_text(edited("hs_token", text))
        assert "refuses the homeserver's request (status 403)" in await right.told()
        right.registration.write_text(edited("as_token", text))
        assert "does not know the as_token" in await right.told()
        right.registration.write_text(text)

        # Another process uses the port.
        with take(right.said["port"]):
            code, refusal = await right.node.refused()
            assert (code, str(right.said["port"]) in refusal["problem"]) == (1, True)

        # What answers is no homeserver.
        async def nothing(request: web.Request) -> web.StreamResponse:
            return web.Response(status=404, text="<html>")

        async with LoopbackServer(nothing).running(None) as server:
            right.write(homeserver=f"http://127.0.0.1:{server.port}")
            assert "is not a homeserver: appservice.homeserver has to be" in await right.told()

        right.write()
        await right.node.start()
        assert (await right.node.cli("status"))[1]["ready"] is True
        assert await right.node.stop() == 0


async def test_the_node_waits_for_its_homeserver(
    palaver: Path, authority: Authority, make_synapse: SynapseFactory
) -> None:
    """The homeserver may be started later: the node reports that it waits and continues by itself, or the
    operator stops it."""
    synapse = await make_synapse(start=False)
    async with operators(palaver, authority, synapse) as make:
        operator = make()
        await operator.register()
        synapse.appservices = [operator.registration]
        node = operator.node
        for sign in (signal.SIGTERM, None):
            node.log.clear()
            await node.spawn()
            line = await node.logged("starts once the homeserver is available")
            assert f"does not respond at {synapse.url}" in line["reason"]
            if sign is not None:
                assert await node.stop(sign) == 0
        code, doctor = await node.cli("doctor")
        side = next(one for one in doctor["findings"] if one["subject"] == "matrix backend")
        assert (code, f"does not respond at {synapse.url}" in side["text"]) == (1, True)
        await synapse.start()
        await synapse.settled()
        await node.logged("Started.")
        assert (await node.cli("status"))[1]["ready"] is True
        # The homeserver stops, and so does the node: unsent events do not block it.
        await synapse.kill()
        assert await node.stop() == 0


def edited(token: str, text: str) -> str:
    """Return the registration with one value replaced. A value that begins with a special character is
    quoted."""
    return re.sub(rf'({token}: "?)', r"\1edited-", text)
