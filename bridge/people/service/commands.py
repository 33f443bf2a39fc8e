"""Executes the commands that people send to the node."""

from collections.abc import Callable

from bridge.agents.address import AgentAddress, parse_target
from bridge.agents.routing import Unknown
from bridge.agents.routing_table import RoutingTable
from bridge.people.commands import COMMANDS, InvalidArguments, Invocation, Parsed, UnknownCommand, page_number
from bridge.people.permissions import Level
from bridge.people.requester import requester_address, requesting_person
from bridge.people.service.rooms import AgentsRooms
from bridge.people.settings import PeopleSettings
from bridge.people.texts import command_texts as texts
from bridge.people.texts.text import Text
from bridge.tasks.service import TaskService
from bridge.tasks.store import task_of
from bridge.tasks.task import Task
from storage.agents import tasks
from storage.database import Database

MAX_TASKS = 10


class CommandService:
    """Executes commands and returns the texts of the answers. `invite` invites a person to the agents' rooms
    in the background."""

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
        self._task_service = task_service
        self._routes = routes
        self._rooms = rooms
        self._settings = settings
        self._now_ms = now_ms
        self._invite = invite

    def refusal(self, parsed: Parsed, user: str) -> str | None:
        """Return why the user may not use the command, or None."""
        rights = self._settings.rights
        command = parsed.command if isinstance(parsed, Invocation) else COMMANDS["help"]
        refusal = rights.of(user).refusal(command.level)
        if refusal is None and command.is_sensitive:
            refusal = rights.sensitive_refusal(user)
        return refusal

    async def answer(self, parsed: Parsed, user: str, *, prefix: str) -> Text:
        """Execute a command. `prefix` is the prefix of commands in its room, for usage messages."""
        match parsed:
            case UnknownCommand():
                return texts.unknown_command(parsed, prefix)
            case InvalidArguments():
                return texts.invalid_arguments(parsed, prefix)
            case Invocation(command, arguments):
                answer = await self._execute(command.name, arguments, user, prefix)
                return answer or texts.invalid_arguments(InvalidArguments(command), prefix)

    async def _execute(self, name: str, arguments: tuple[str, ...], user: str, prefix: str) -> Text | None:
        """Return None if the arguments are invalid."""
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
        parsed = texts.word_and_page(arguments)
        if parsed is None:
            return None
        word, number = parsed
        table, wanted = self._routes.table, word.lower()
        found = (
            agent
            for agent in table.agents()
            if agent.is_online and (not wanted or wanted in texts.searchable_text(agent))
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
        found = await self._tasks_of(user) if name is None else await self._task_service.find(name, MAX_TASKS)
        return texts.tasks_text(found, self._now_ms(), self._settings.node_id, name=name)

    async def _tasks_of(self, user: str) -> list[Task]:
        address = requester_address(user, self._settings.node_id)
        if not isinstance(address, AgentAddress):
            return []
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.list_tasks(connection, agent=str(address), limit=MAX_TASKS)
        return [task_of(row) for row in rows]

    async def _cancel(self, name: str, reason: str | None, user: str) -> Text:
        found = await self._task_service.find(name, MAX_TASKS)
        live = [task for task in found if not task.state.is_final]
        if not live:
            ended = texts.tasks_text(found, self._now_ms(), self._settings.node_id, name=name)
            return Text.of("There is nothing to cancel.\n") + ended if found else ended
        if len(live) > 1:
            several = texts.tasks_text(live, self._now_ms(), self._settings.node_id, name=name)
            return Text.of("Several tasks have this id. React with ❌ to the one to cancel.\n") + several
        [task] = live
        refusal = self._cancel_refusal(task, user)
        if refusal is not None:
            return Text.of(refusal)
        cancelled = await self._task_service.cancel(task.key, user, reason)
        return texts.tasks_text([cancelled or task], self._now_ms(), self._settings.node_id, name=name)

    def _cancel_refusal(self, task: Task, user: str) -> str | None:
        if requesting_person(task.request, self._settings.node_id) == user:
            return None
        return self._settings.rights.of(user).refusal(Level.ADMINISTER)
