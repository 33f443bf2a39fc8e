"""The texts of the node's answers to commands. Lists are divided into pages."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from bridge.agents.agent import Agent, AgentNode
from bridge.people.commands import COMMANDS, Command, InvalidArguments, UnknownCommand, page_number
from bridge.people.message import reaction_of
from bridge.people.permissions import Rights
from bridge.people.texts.task_texts import LONGEST_NAME, SECOND_MS, name_of, requester_name
from bridge.people.texts.text import Text, one_line
from bridge.tasks.task import Task
from bridge.text.times import ago, duration
from federation.matrix.message_content import Html, bold, code, html_list, italic, link, paragraph

T = TypeVar("T")

PAGE: Final = 20
MAX_PAGES: Final = 500
_LONGEST_LINE: Final = 300


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. `total` is the number of items on all pages."""

    items: Sequence[T]
    number: int
    total: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE))


def page_of(items: Iterable[T], number: int, key: Callable[[T], str]) -> Page[T]:
    """Return a page of the sorted items. Only the items up to this page are sorted, as there may be very
    many."""
    every = list(items)
    number = min(number, MAX_PAGES)
    first = heapq.nsmallest(number * PAGE, every, key=key)
    return Page(first[(number - 1) * PAGE :], number, len(every))


def word_and_page(arguments: Sequence[str]) -> tuple[str, int] | None:
    """Parse `[WORD] [PAGE]`, or return None if the second argument is not a page."""
    match arguments:
        case []:
            return "", 1
        case [argument]:
            number = page_number(argument)
            return ("", number) if number is not None else (argument, 1)
        case [word, number]:
            page = page_number(number)
            return None if page is None else (word, page)
    return None


# ---- errors ------------------------------------------------------------------------------------------


def unknown_command(error: UnknownCommand, prefix: str) -> Text:
    suggestion = f' Did you mean "{error.suggestion}"?' if error.suggestion is not None else ""
    hint = f"{prefix}help"
    return Text(
        f'There is no command "{error.word}".{suggestion} Send "{hint}" for a list of commands.',
        Html('There is no command "')
        + code(error.word)
        + f'".{suggestion} Send '
        + code(hint)
        + " for a list of commands.",
    )


def invalid_arguments(error: InvalidArguments, prefix: str) -> Text:
    usage = f"{prefix}{error.command.usage}"
    return Text(
        f"Usage: {usage} – {error.command.summary}.", Html("Usage: ") + code(usage) + f" – {error.command.summary}."
    )


# ---- answers -----------------------------------------------------------------------------------------


def help_text(user: str, rights: Rights, prefix: str, only: Command | None = None) -> Text:
    """List the commands that the user may use, or explain one."""
    permission = rights.of(user)
    commands = [
        command
        for command in ([only] if only is not None else COMMANDS.values())
        if only is not None or permission.level.includes(command.level)
    ]
    lines = [
        Text(
            f"{prefix}{command.usage} – {command.summary}{_requirements(command)}",
            code(f"{prefix}{command.usage}") + f" – {command.summary}{_requirements(command)}",
        )
        for command in commands
    ]
    how = "To give an agent a task, mention it in a room or write to it in a direct chat."
    return _list(None if only is not None else Text.of("Commands:"), lines, how if only is None else "")


def _requirements(command: Command) -> str:
    if not command.is_sensitive:
        return ""
    return f' (sensitive: needs the permission "{command.level}" and a second permission)'


def agents_text(page: Page[Agent], word: str, now_ms: int, last_seen: Callable[[Agent], int | None]) -> Text:
    if not page.total:
        return Text.of(f'No agent matches "{one_line(word, 40)}".' if word else "There are no agents.")
    lines = [_agent_line(agent, now_ms, last_seen(agent)) for agent in page.items]
    return _paged("agents", lines, page, f" {one_line(word, 40)}" if word else "")


def searchable_text(agent: Agent) -> str:
    """The text of an agent in which the command `agents` searches for a word."""
    return " ".join((str(agent.address), agent.status, agent.runtime, *agent.capabilities)).lower()


def _agent_line(agent: Agent, now_ms: int, last_seen: int | None) -> Text:
    name = name_of(agent.address)
    details = [agent.status.value, agent.runtime, ", ".join(agent.capabilities)]
    rest = one_line(" · ".join(detail for detail in details if detail), _LONGEST_LINE)
    seen = f" · last seen {ago(last_seen, now_ms)}" if last_seen is not None else ""
    return name + Text.of(f" · {rest}{seen}")


def agent_text(agent: Agent | None, explanation: str) -> Text:
    """Describe an agent. `explanation` is the routing table's explanation of its route."""
    line = one_line(explanation, 1_000)
    if agent is None:
        return Text.of(line)
    capabilities = one_line(", ".join(agent.capabilities), _LONGEST_LINE) or "none"
    return Text(
        f"{line}\nCapabilities: {capabilities}", paragraph(line) + paragraph(Html("Capabilities: ") + capabilities)
    )


@dataclass(frozen=True, slots=True)
class RoomOfAgents:
    """An entry of the list of agents' rooms."""

    namespace: str
    alias: str


def rooms_text(page: Page[RoomOfAgents], *, invited: bool) -> Text:
    """List the rooms. `invited` is true if the person is invited to them because they are not public."""
    if not page.total:
        return Text.of("There are no rooms of agents.")
    lines = [
        Text(
            f"{room.alias} – the agents of the namespace {room.namespace}",
            link(f"https://matrix.to/#/{quote(room.alias, safe='')}", room.alias)
            + f" – the agents of the namespace {room.namespace}",
        )
        for room in page.items
    ]
    listing = _paged("rooms", lines, page)
    more = "You have been invited to them." if invited else ""
    return listing + Text(f"\n{more}", paragraph(more)) if more else listing


def task_text(task: Task, now_ms: int, node_id: str) -> Text:
    requester, agent = requester_name(task, node_id), name_of(task.request.to_address)
    status = reaction_of(task.state).emoji
    task_id = one_line(task.request.task_id, LONGEST_NAME)
    if task.finished_at is not None:
        took = task.finished_at - task.received_at
        when = f"{ago(task.finished_at, now_ms)}{f', after {duration(took)}' if took >= SECOND_MS else ''}"
    else:
        left = max(0, task.deadline - now_ms)
        when = f"requested {ago(task.received_at, now_ms)}, {duration(left)} left"
    state = task.state.value.replace("_", " ")
    code_text = f" ({task.answer.error_code})" if task.answer and task.answer.error_code else ""
    return (
        Text(f"{status} {task_id}: ", Html(f"{status} ") + code(task_id) + ": ")
        + requester
        + Text.of(" asks ")
        + agent
        + Text.of(f" · {state}{code_text} · {when}")
    )


def tasks_text(tasks: Sequence[Task], now_ms: int, node_id: str, *, name: str | None) -> Text:
    """List tasks. `name` is the id that was searched for, or None for the person's own latest tasks."""
    if not tasks:
        return Text.of(f'No task "{one_line(name, 80)}" was found.' if name else "You have no tasks.")
    return _list(None, [task_text(task, now_ms, node_id) for task in tasks], "")


def peers_text(page: Page[AgentNode], count: Callable[[str], int], now_ms: int, node_id: str) -> Text:
    if not page.total:
        return Text.of("No nodes are known.")
    lines = [_node_line(node, count(node.node_id), now_ms, node_id) for node in page.items]
    return _paged("peers", lines, page)


def _node_line(node: AgentNode, agents: int, now_ms: int, node_id: str) -> Text:
    shown = one_line(node.node_id, LONGEST_NAME)
    name = Text(shown, bold(shown))
    plural = "agent" if agents == 1 else "agents"
    if node.node_id == node_id:
        return name + Text.of(f" · {agents} {plural}, this node")
    where = f"at {one_line(node.url, _LONGEST_LINE)}" if node.url else "discovered by name"
    silent = f", silent since {ago(node.silent_since, now_ms)}" if node.silent_since is not None else ""
    trusted = "" if node.trusted else ", not trusted"
    heartbeat = f", last heartbeat {ago(node.last_heartbeat, now_ms)}" if node.last_heartbeat is not None else ""
    return name + Text.of(f" · {agents} {plural}, {where}{trusted}{heartbeat}{silent}")


def _paged(command: str, lines: Sequence[Text], page: Page[T], word: str = "") -> Text:
    if not lines:
        return Text.of(f"There are {page.pages} pages.")
    if page.pages == 1:
        return _list(None, lines, "")
    next_page = f' Send "{command}{word} {page.number + 1}" for the next page.' if page.number < page.pages else ""
    return _list(None, lines, f"Page {page.number} of {page.pages}.{next_page}")


def _list(head: Text | None, lines: Sequence[Text], foot: str) -> Text:
    plain = [*([head.plain] if head is not None else []), *(f"- {line.plain}" for line in lines)]
    html = head.html if head is not None else Html()
    html += html_list(line.html for line in lines)
    return Text("\n".join([*plain, *([foot] if foot else [])]), html + paragraph(italic(foot)) if foot else html)
