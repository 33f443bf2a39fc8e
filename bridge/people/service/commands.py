"""Answers commands."""

from collections.abc import Callable

from bridge.agents.address import AgentAddress, parse_target
from bridge.agents.routing import Unknown
from bridge.agents.routing_table import RoutingTable
from bridge.people.commands import COMMANDS, NoSuchCommand, Order, Parsed, WrongArguments, page_number
from bridge.people.permissions import Level
from bridge.people.requester import in_name_of, requester
from bridge.people.service.rooms import AgentsRooms
from bridge.people.settings import PeopleSettings
from bridge.people.texts import command_texts as texts
from bridge.people.texts.text import Text
from bridge.tasks.service import TaskService
from bridge.tasks.store import task_of
from bridge.tasks.task import Task
from storage.agents import tasks
from storage.database import Database

MOST_TASKS = 10


class CommandDesk:
    """`invite` is asked to let a person into the rooms of agents, and returns at once."""

    def __init__(
        self,
        database: Database,
        task_service: TaskService,
        routes: RoutingTable,
        rooms: AgentsRooms,
        settings: PeopleSettings,
        *,
        now_ms: Callable[[], int],
        invite: Callable[[str], None],
    ) -> None:
        self._database = database
        self._tasks = task_service
        self._routes = routes
        self._rooms = rooms
        self._settings = settings
        self._now_ms = now_ms
        self._invite = invite

    def refusal(self, parsed: Parsed, user: str) -> str | None:
        """Why this user may not ask this."""
        rights = self._settings.rights
        command = parsed.command if isinstance(parsed, Order) else COMMANDS["help"]
        refusal = rights.of(user).refusal(command.level)
        if refusal is None and command.is_sensitive:
            refusal = rights.sensitive_refusal(user)
        return refusal

    async def answer(self, parsed: Parsed, user: str, *, prefix: str) -> Text:
        """`prefix` is what a command begins with where it was asked."""
        match parsed:
            case NoSuchCommand():
                return texts.no_such_command(parsed, prefix)
            case WrongArguments():
                return texts.wrong_arguments(parsed, prefix)
            case Order(command, arguments):
                answered = await self._obey(command.name, arguments, user, prefix)
                return answered or texts.wrong_arguments(WrongArguments(command), prefix)

    async def _obey(self, name: str, arguments: tuple[str, ...], user: str, prefix: str) -> Text | None:
        """None when the arguments are not what the command takes."""
        match name:
            case "help":
                return self._help(arguments, user, prefix)
            case "agents":
                return self._agents(arguments)
            case "agent":
                return self._agent(arguments[0])
            case "rooms":
                return self._list_rooms(arguments, user)
            case "task":
                return await self._task(arguments, user)
            case "cancel":
                return await self._cancel(arguments[0], "".join(arguments[1:]) or None, user)
            case "peers":
                return self._peers(arguments)
        raise AssertionError(f"{name} is in the table of commands")

    def _help(self, arguments: tuple[str, ...], user: str, prefix: str) -> Text | None:
        only = COMMANDS.get(arguments[0].lower()) if arguments else None
        if arguments and only is None:
            return None
        return texts.help_text(user, self._settings.rights, prefix, only)

    def _agents(self, arguments: tuple[str, ...]) -> Text | None:
        read = texts.word_and_page(arguments)
        if read is None:
            return None
        word, number = read
        table, wanted = self._routes.table, word.lower()
        found = (
            agent
            for agent in table.agents()
            if agent.is_online and (not wanted or wanted in texts.agent_words(agent))
        )
        page = texts.page_of(found, number, lambda agent: f"{agent.node_id}\0{agent.agent_id}")
        return texts.agents_text(page, word, self._now_ms(), table.last_seen)

    def _agent(self, name: str) -> Text:
        target = parse_target(name)
        route = self._routes.route(name)
        address = target if isinstance(target, AgentAddress) else None
        if not isinstance(route, Unknown):
            address = route.address
        agent = None if address is None else self._routes.agent(address)
        return texts.agent_text(agent, self._routes.explain(name))

    def _list_rooms(self, arguments: tuple[str, ...], user: str) -> Text | None:
        number = page_number(arguments[0]) if arguments else 1
        if number is None:
            return None
        page = texts.page_of(self._rooms.listed(), number, lambda room: room.namespace)
        is_open = self._settings.join_rule == "public"
        if not is_open:
            self._invite(user)
        return texts.rooms_text(page, invited=not is_open)

    def _peers(self, arguments: tuple[str, ...]) -> Text | None:
        number = page_number(arguments[0]) if arguments else 1
        if number is None:
            return None
        table = self._routes.table
        page = texts.page_of(table.nodes(), number, lambda node: node.node_id)
        return texts.peers_text(page, table.count, self._now_ms(), self._settings.node_id)

    # -- tasks --

    async def _task(self, arguments: tuple[str, ...], user: str) -> Text:
        name = arguments[0] if arguments else None
        found = await self._tasks_of(user) if name is None else await self._tasks.find(name, MOST_TASKS)
        return texts.tasks_text(found, self._now_ms(), self._settings.node_id, name=name)

    async def _tasks_of(self, user: str) -> list[Task]:
        address = requester(user, self._settings.node_id)
        if not isinstance(address, AgentAddress):
            return []
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.list_tasks(connection, agent=str(address), limit=MOST_TASKS)
        return [task_of(row) for row in rows]

    async def _cancel(self, name: str, reason: str | None, user: str) -> Text:
        found = await self._tasks.find(name, MOST_TASKS)
        live = [task for task in found if not task.state.is_final]
        if not live:
            over = texts.tasks_text(found, self._now_ms(), self._settings.node_id, name=name)
            return Text.of("There is nothing to take back.\n") + over if found else over
        if len(live) > 1:
            several = texts.tasks_text(live, self._now_ms(), self._settings.node_id, name=name)
            return Text.of("Several tasks are called so; react with ❌ to the one that is meant.\n") + several
        [task] = live
        refusal = self._not_his(task, user)
        if refusal is not None:
            return Text.of(refusal)
        ended = await self._tasks.cancel(task.key, user, reason)
        return texts.tasks_text([ended or task], self._now_ms(), self._settings.node_id, name=name)

    def _not_his(self, task: Task, user: str) -> str | None:
        if in_name_of(task.request, self._settings.node_id) == user:
            return None
        return self._settings.rights.of(user).refusal(Level.ADMINISTER)
