"""A random walk of agents that connect, disconnect and work for each other, while links break and nodes
restart."""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable

from bridge.tasks.answer import Answer
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from tests.bridge.connectors.cis.cis_nodes import CisNode
from tests.bridge.connectors.cis.far_agents import FarAgents, until
from tests.support.agents import address

DONE = Answer(True, "done", 0)
AGENTS = ("w1", "w2", "w3")
LOOKS = 20
"""In a row that have to find nothing wrong: more than a heartbeat lies between the first and the last."""


class AgentsWalk:
    """`there` has each node's agents with their namespaces. `begun` counts how often the agents were allowed
    to begin a task, `answers` has every answer that a requester received, including repeated ones."""

    def __init__(self, far: FarAgents) -> None:
        self._far, self._chance = far, far.chance
        self.there: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in far.names}
        self.asked: list[TaskKey] = []
        self.begun: Counter[TaskKey] = Counter()
        self.answers: dict[TaskKey, list[Answer]] = defaultdict(list)
        self.history: list[str] = []
        self._at_work: dict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._acts: dict[Callable[[str], Awaitable[None]], float] = {
            self._come: 5,
            self._go: 3,
            self._ask_somebody: 12,
            self._cut: 1.5,
            self._heal: 3,
            self._double: 1.5,
            self._restart: 1,
            self._kill: 1.5,
        }

    async def go(self, steps: int) -> None:
        async with self._far.leaping(), self.working():
            for _ in range(steps):
                (act,) = self._chance.choices(list(self._acts), list(self._acts.values()))
                await act(self._chance.choice(self._far.names))
                await asyncio.sleep(self._chance.choice([0, 0, 0.02, 0.1, 0.4]))
            for link in self._far.links.values():
                link.heal()
            await self.all_answered()
            await self._agree()
        await self.check_tasks()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the agents' tasks and record the answers until the block ends."""
        for name in self._far.names:
            self._begin_to_work(name)
        try:
            yield
        finally:
            for name in self._far.names:
                await self._end_work(name)

    # -- working --

    def _begin_to_work(self, name: str) -> None:
        self._start(name, self._work(self._far.cis[name]))
        self._start(name, self._listen(self._far.cis[name]))

    async def _end_work(self, name: str) -> None:
        works = self._at_work.pop(name, set())
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        answered = self._far.cis[name].requester.answered
        while not answered.empty():
            self._told(answered.get_nowait())

    def _start(self, name: str, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._at_work[name].add(task)

    async def _work(self, node: CisNode) -> None:
        while True:
            self._start(node.name, self._do(node, await node.local_agents.delivered.get()))

    async def _do(self, node: CisNode, task: Task) -> None:
        tasks, me = node.core.tasks, task.request.to_address
        if await tasks.begin(task.key, by=me) is None:
            return
        self.begun[task.key] += 1
        await tasks.progress(task.key, {"percent": 50}, by=me)
        await asyncio.sleep(self._chance.choice([0, 0, 0.05, 0.3]))
        await tasks.finish(task.key, DONE, by=me)

    async def _listen(self, node: CisNode) -> None:
        while True:
            self._told(await node.requester.answered.get())

    def _told(self, task: Task) -> None:
        assert task.answer is not None, "only finished tasks are answered"
        self.answers[task.key].append(task.answer)

    # -- what happens --

    async def _come(self, name: str) -> None:
        agent = self._chance.choice(AGENTS)
        if agent in self.there[name]:
            return
        own = self._far.cis[name].settings.namespaces
        spaces = self._chance.choice([own[:1], own[:1], own[1:], own])
        self.history.append(f"{agent}@{name} comes into {spaces}")
        self.there[name][agent] = spaces
        await self._far.cis[name].local_agents.register(agent, namespaces=spaces)

    async def _go(self, name: str) -> None:
        agent = self._chance.choice(AGENTS)
        if self.there[name].pop(agent, None) is not None:
            self.history.append(f"{agent}@{name} goes")
            await self._far.cis[name].local_agents.unregister(agent)

    async def _ask_somebody(self, name: str) -> None:
        known = [agent for agent in self._far.cis[name].table.agents() if agent.is_online]
        for agent in self._chance.sample(known, min(len(known), self._chance.choice([1, 1, 3]))):
            await self.ask(name, str(agent.address), str(len(self.asked)))

    async def ask(self, name: str, to: str, request_id: str) -> None:
        self.history.append(f"{name} asks {to}: {request_id}")
        self.asked.append(await self._far.cis[name].ask(to, request_id))

    async def _cut(self, name: str) -> None:
        other = self._chance.choice([one for one in self._far.names if one != name])
        both = self._far.between([name], [other])
        links = both if self._chance.random() < 0.7 else [self._far.links[name, other]]
        self.history.append(f"{name} and {other} are cut off, {len(links)} way(s)")
        for link in links:
            link.cut()

    async def _heal(self, name: str) -> None:
        self.history.append(f"all is well around {name}")
        for ends, link in self._far.links.items():
            if name in ends:
                link.heal()

    async def _double(self, name: str) -> None:
        self.history.append(f"events of {name} are duplicated")
        for (here, _), link in self._far.links.items():
            if here == name:
                link.duplicate(0.7)

    async def _restart(self, name: str) -> None:
        self.history.append(f"{name} is started again")
        await self._end_work(name)
        await self._far.stop(name)
        await self._start_again(name)

    async def _kill(self, name: str) -> None:
        self.history.append(f"{name} is killed")
        await self._far.kill(name)
        await self._end_work(name)
        await self._start_again(name)

    async def _start_again(self, name: str) -> None:
        await self._far.start_again(name)
        self._begin_to_work(name)

    # -- what must be so in the end --

    async def all_answered(self) -> None:
        open_tasks: list[TaskKey] = []

        async def are_over() -> bool:
            open_tasks[:] = [
                key for key in self.asked if not (await self._far.cis[key.node_id].task(key)).state.is_final
            ]
            return not open_tasks and all(self.answers[key] for key in self.asked)

        await until(are_over, lambda: (open_tasks, self.history))

    async def check_tasks(self) -> None:
        """Check that each task has one answer, however often it was delivered, and was begun at most once."""
        for key in self.asked:
            task = await self._far.cis[key.node_id].task(key)
            told = self.answers[key]
            assert all(answer == task.answer for answer in told), (key, told, task, self.history)
            assert self.begun[key] <= 1, (key, self.history)
            if task.answer == DONE:
                assert self.begun[key] == 1, (key, self.history)

    async def _agree(self) -> None:
        """Wait until all nodes agree, and stay so."""
        wrong: list[str] = []
        in_a_row = 0

        async def do_agree() -> bool:
            nonlocal in_a_row
            wrong[:] = [one for node in self._far.all for one in self._wrong_at(node)]
            in_a_row = 0 if wrong else in_a_row + 1
            return in_a_row == LOOKS

        await until(do_agree, lambda: (wrong, self.history))

    def _wrong_at(self, node: CisNode) -> list[str]:
        """Return the differences between a node's routing table and the expected agents."""
        wrong = []
        for home, agents in self.there.items():
            for name in AGENTS:
                shared = home == node.name or set(agents.get(name, ())) & self._shared(node, home)
                agent = node.table.agent(address(f"{name}@{home}"))
                is_seen = agent is not None and agent.is_online
                if is_seen != bool(name in agents and shared):
                    wrong.append(f"{node.name} {'sees' if is_seen else 'misses'} {name}@{home}")
        return wrong

    def _shared(self, node: CisNode, home: str) -> set[str]:
        peer = node.settings.peer(home)
        return set() if peer is None else set(node.settings.common_namespaces(peer))
