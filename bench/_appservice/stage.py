"""The whole setup on one machine: the homeserver, its people, and both sides."""

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from bench._appservice import attached_node, bare_bot
from bench._appservice.homeserver import Homeserver, homeserver
from bench._appservice.requests import requests_answered
from bench._appservice.sides import BESIDE, BOT, NODE, THREADS, Answerer, Person, Settings, as_dict
from bench._federation.processes import cpu_seconds, family_cpu_seconds
from bench._federation.runs import Runs
from bench._harness.child import Child, child, python_module
from bench._harness.database import Database, database
from tests.support.matrix_client import MatrixClient
from tests.support.tls import Authority

PEOPLE = 64
"""None of them requests more than two tasks a second, the limit of a person."""
AT_ONCE = 32
JOINING_AT_ONCE = 8
BOTS_ROOM, THREADS_ROOM, BESIDE_ROOM = "bare-bots", "bare-bots-in-threads", "beside-the-bots"
START_SECONDS = 60.0
COMMAND_SECONDS = 300.0
QUIET_SECONDS, QUIET_SHARE, QUIET_TIMEOUT = 0.4, 0.1, 60.0
"""A process is quiet when it uses less than this share of a CPU for so long."""


@dataclass
class Stage:
    """Only the side that is being measured has work."""

    homeserver: Homeserver
    generator: Child
    pids: Mapping[str, int]
    """The processes of either side and of the Synapse, and both Postgres."""
    remarks_before: Sequence[str]
    runs: defaultdict[tuple[str, str], Runs[dict[str, Any]]] = field(default_factory=lambda: defaultdict(Runs))
    requests: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def ask(self, side: str, do: str, **how: Any) -> dict[str, Any]:
        """Run a load. Returns its results, the CPU used until everything was idle again, and the side's
        requests to the homeserver: deferred work counts as well."""
        synapse = self.homeserver.synapse
        before, answered = self._cpu_seconds(), await requests_answered(synapse)
        line = await self.generator.ask(json.dumps({"side": side, "do": do, **how}), COMMAND_SECONDS)
        came: dict[str, Any] = json.loads(line)
        await self._until_quiet()
        after, tasks = self._cpu_seconds(), len(came["durations"])
        # Each was requested by one request of another client.
        made = await requests_answered(synapse) - answered - tasks
        self.requests[side].append(made / tasks)
        return {**came, "cpu": {name: after[name] - before[name] for name in after}}

    @property
    def remarks(self) -> Sequence[str]:
        """Return facts that the figures depend on."""
        made = "; ".join(f"the {side} made {sum(each) / len(each):.2f}" for side, each in sorted(self.requests.items()))
        return [*self.remarks_before, f"Requests to the homeserver for each message that was answered: {made}."]

    def _cpu_seconds(self) -> dict[str, float]:
        return {
            name: family_cpu_seconds(pid) if name.endswith("postgres") else cpu_seconds(pid)
            for name, pid in self.pids.items()
        }

    async def _until_quiet(self) -> None:
        """Wait until the side is idle, so that its work does not affect the other side."""
        async with asyncio.timeout(QUIET_TIMEOUT):
            before = self._cpu_seconds()
            while True:
                await asyncio.sleep(QUIET_SECONDS)
                after = self._cpu_seconds()
                if all(after[name] - before[name] < QUIET_SECONDS * QUIET_SHARE for name in after):
                    return
                before = after


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start everything; return when both sides have answered."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = Authority("Authority of the benchmark")
        behind_synapse = await stack.enter_async_context(database())
        behind_node = await stack.enter_async_context(database())
        host = await stack.enter_async_context(homeserver(directory, authority, behind_synapse))
        synapse = host.synapse
        aliases = {
            side: f"#{name}:{synapse.server_name}"
            for side, name in ((BOT, BOTS_ROOM), (THREADS, THREADS_ROOM), (BESIDE, BESIDE_ROOM))
        }
        bot_place = bare_bot.prepared(directory / "bot", host, aliases[BOT], aliases[THREADS])
        node_place = await attached_node.prepared(directory / "node", authority, host, behind_node)
        await host.start([bot_place.registration, node_place.registration])

        people = [await synapse.person(f"person-{number}") for number in range(PEOPLE)]
        rooms = {
            side: await people[0].create_room(
                preset="public_chat", alias=alias[1:].partition(":")[0], name="Bots", version="12"
            )
            for side, alias in aliases.items()
        }
        node = await stack.enter_async_context(attached_node.attached_node(node_place))
        bot = await stack.enter_async_context(bare_bot.bare_bot(bot_place))
        for alias in aliases.values():
            await _join(people, alias)
        agents_room = await _join(people, f"#agents-default:{synapse.server_name}")

        agent = f"@_agent_{attached_node.AGENT}:{synapse.server_name}"
        await people[0].invite(rooms[BESIDE], agent)
        async with asyncio.timeout(START_SECONDS):
            while agent not in await people[0].joined_members(rooms[BESIDE]):  # noqa: ASYNC110 - a homeserver is asked
                await asyncio.sleep(0.1)
        settings = Settings(
            homeserver=synapse.url,
            authority=str(node_place.authority),
            people=tuple(Person(one.user_id, one.access_token) for one in people),
            answerers={
                NODE: Answerer(agent, attached_node.AGENT, agents_room),
                BESIDE: Answerer(agent, attached_node.AGENT, rooms[BESIDE]),
                **{side: Answerer(bot_place.user_id, bare_bot.LOCALPART, rooms[side]) for side in (BOT, THREADS)},
            },
        )
        command = python_module("bench._appservice.load_generator", json.dumps(as_dict(settings)))
        generator = await stack.enter_async_context(child("the load generator", *command))
        await generator.line(START_SECONDS)
        pids = {
            NODE: node.pid,
            BOT: bot.pid,
            "synapse": synapse.pid,
            "synapse-postgres": behind_synapse.pid,
            "node-postgres": behind_node.pid,
        }
        yield Stage(host, generator, pids, await _remarks(host, behind_node))


async def _join(people: Sequence[MatrixClient], alias: str) -> str:
    places = asyncio.Semaphore(JOINING_AT_ONCE)

    async def join(one: MatrixClient) -> str:
        async with places:
            return await one.join(alias)

    return (await asyncio.gather(*map(join, people)))[0]


async def _remarks(host: Homeserver, behind: Database) -> list[str]:
    ours, its = f"Palaver {version('palaver')}", f"mautrix {version('mautrix')}"
    synapse = f"one Synapse {await host.version()}"
    return [
        f"{ours} and {its} on Python {python_version()}, attached to {synapse}; rooms of {PEOPLE} people.",
        *behind.remarks,
    ]
