"""What the node answers to commands. Lists are shown a page at a time."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from bridge.agents.agent import Agent, AgentNode
from bridge.people.commands import COMMANDS, Command, NoSuchCommand, WrongArguments, page_number
from bridge.people.message import sign_of
from bridge.people.permissions import Rights
from bridge.people.texts.task_texts import LONGEST_NAME, SECOND_MS, name_of, requester_name
from bridge.people.texts.text import Text, one_line
from bridge.tasks.task import Task
from bridge.text.times import ago, duration
from federation.matrix.message_content import Html, bold, code, html_list, italic, link, paragraph

T = TypeVar("T")

PAGE: Final = 20
MOST_PAGES: Final = 500
_LONGEST_LINE: Final = 300


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    number: int
    total: int
    """Of all pages together."""

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE))


def page_of(items: Iterable[T], number: int, key: Callable[[T], str]) -> Page[T]:
    """Of a hundred thousand no more are put in order than are wanted."""
    every = list(items)
    number = min(number, MOST_PAGES)
    first = heapq.nsmallest(number * PAGE, every, key=key)
    return Page(first[(number - 1) * PAGE :], number, len(every))


def word_and_page(arguments: Sequence[str]) -> tuple[str, int] | None:
    """`[WORD] [PAGE]`; None when there are two and neither is a page."""
    match arguments:
        case []:
            return "", 1
        case [one]:
            number = page_number(one)
            return ("", number) if number is not None else (one, 1)
        case [word, number]:
            page = page_number(number)
            return None if page is None else (word, page)
    return None


# ---- mistakes ----------------------------------------------------------------------------------------


def no_such_command(mistake: NoSuchCommand, prefix: str) -> Text:
    meant = f' Did you mean "{mistake.meant}"?' if mistake.meant is not None else ""
    hint = f"{prefix}help"
    return Text(
        f'There is no command "{mistake.word}".{meant} Say "{hint}" for what there is.',
        Html('There is no command "')
        + code(mistake.word)
        + f'".{meant} Say '
        + code(hint)
        + " for what there is.",
    )


def wrong_arguments(mistake: WrongArguments, prefix: str) -> Text:
    usage = f"{prefix}{mistake.command.usage}"
    return Text(
        f"Say it like this: {usage} – {mistake.command.summary}.",
        Html("Say it like this: ") + code(usage) + f" – {mistake.command.summary}.",
    )


# ---- answers -----------------------------------------------------------------------------------------


def help_text(user: str, rights: Rights, prefix: str, only: Command | None = None) -> Text:
    """What this user may ask."""
    verdict = rights.of(user)
    commands = [
        command
        for command in ([only] if only is not None else COMMANDS.values())
        if only is not None or verdict.level.includes(command.level)
    ]
    lines = [
        Text(
            f"{prefix}{command.usage} – {command.summary}{_takes(command)}",
            code(f"{prefix}{command.usage}") + f" – {command.summary}{_takes(command)}",
        )
        for command in commands
    ]
    how = "To give an agent work, mention it in a room, or write to it in a chat of your own."
    return _list(
        None if only is not None else Text.of("What you can ask:"), lines, how if only is None else ""
    )


def _takes(command: Command) -> str:
    second = ", and a second one, being sensitive" if command.is_sensitive else ""
    return f' (takes the permission "{command.level}"{second})' if second else ""


def agents_text(page: Page[Agent], word: str, now_ms: int, last_seen: Callable[[Agent], int | None]) -> Text:
    if not page.total:
        return Text.of(
            f'No agent has "{one_line(word, 40)}" in its line.' if word else "There are no agents."
        )
    lines = [_agent_line(agent, now_ms, last_seen(agent)) for agent in page.items]
    return _paged("agents", lines, page, f" {one_line(word, 40)}" if word else "")


def agent_words(agent: Agent) -> str:
    """In which a word is looked for."""
    return " ".join((str(agent.address), agent.status, agent.runtime, *agent.capabilities)).lower()


def _agent_line(agent: Agent, now_ms: int, last_seen: int | None) -> Text:
    name = name_of(agent.address)
    said = [agent.status.value, agent.runtime, ", ".join(agent.capabilities)]
    rest = one_line(" · ".join(word for word in said if word), _LONGEST_LINE)
    heard = f" · heard {ago(last_seen, now_ms)}" if last_seen is not None else ""
    return name + Text.of(f" · {rest}{heard}")


def agent_text(agent: Agent | None, explained: str) -> Text:
    """`explained` is the route to it, as the routing table has it."""
    line = one_line(explained, 1_000)
    if agent is None:
        return Text.of(line)
    able = one_line(", ".join(agent.capabilities), _LONGEST_LINE) or "nothing that it says"
    return Text(
        f"{line}\nIt can do: {able}",
        paragraph(line) + paragraph(Html("It can do: ") + able),
    )


@dataclass(frozen=True, slots=True)
class RoomOfAgents:
    namespace: str
    alias: str


def rooms_text(page: Page[RoomOfAgents], *, invited: bool) -> Text:
    """`invited`: whoever asked has been invited into those that are not open."""
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
    more = "You have been invited into them." if invited else ""
    return listing + Text(f"\n{more}", paragraph(more)) if more else listing


def task_text(task: Task, now_ms: int, node_id: str) -> Text:
    who, whom = requester_name(task, node_id), name_of(task.request.to_address)
    sign = sign_of(task.state).emoji
    task_id = one_line(task.request.task_id, LONGEST_NAME)
    if task.finished_at is not None:
        took = task.finished_at - task.received_at
        when = f"{ago(task.finished_at, now_ms)}{f', after {duration(took)}' if took >= SECOND_MS else ''}"
    else:
        left = max(0, task.deadline - now_ms)
        when = f"asked {ago(task.received_at, now_ms)}, has {duration(left)} left"
    state = task.state.value.replace("_", " ")
    code_text = f" ({task.answer.error_code})" if task.answer and task.answer.error_code else ""
    return (
        Text(f"{sign} {task_id}: ", Html(f"{sign} ") + code(task_id) + ": ")
        + who
        + Text.of(" asks ")
        + whom
        + Text.of(f" · {state}{code_text} · {when}")
    )


def tasks_text(tasks: Sequence[Task], now_ms: int, node_id: str, *, name: str | None) -> Text:
    """`name` is what was looked for; None for the newest of whoever asks."""
    if not tasks:
        return Text.of(f'No task "{one_line(name, 80)}" is known.' if name else "You have no tasks.")
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
    where = f"at {one_line(node.url, _LONGEST_LINE)}" if node.url else "by its name"
    silent = f", silent since {ago(node.silent_since, now_ms)}" if node.silent_since is not None else ""
    trusted = "" if node.trusted else ", not trusted"
    heard = f", heard {ago(node.last_heartbeat, now_ms)}" if node.last_heartbeat is not None else ""
    return name + Text.of(f" · {agents} {plural}, reached {where}{trusted}{heard}{silent}")


def _paged(command: str, lines: Sequence[Text], page: Page[T], word: str = "") -> Text:
    if not lines:
        return Text.of(f"There are {page.pages} pages.")
    if page.pages == 1:
        return _list(None, lines, "")
    further = f' "{command}{word} {page.number + 1}" has more.' if page.number < page.pages else ""
    return _list(None, lines, f"Page {page.number} of {page.pages}.{further}")


def _list(head: Text | None, lines: Sequence[Text], foot: str) -> Text:
    plain = [*([head.plain] if head is not None else []), *(f"- {line.plain}" for line in lines)]
    html = head.html if head is not None else Html()
    html += html_list(line.html for line in lines)
    return Text(
        "\n".join([*plain, *([foot] if foot else [])]), html + paragraph(italic(foot)) if foot else html
    )
