"""The texts of answers to commands."""

from typing import Any

import pytest

from bridge.agents.agent import Agent, AgentNode, AgentStatus
from bridge.people.commands import COMMANDS, InvalidArguments, UnknownCommand
from bridge.people.permissions import Level, Rights
from bridge.people.texts import command_texts as texts
from bridge.people.texts.command_texts import PAGE, Page, RoomOfAgents
from bridge.tasks.answer import failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.task import State, Task
from tests.support.agents import NOW, address

RIGHTS = Rights({"*": Level.LOOK, "@carol:there": Level.ADMINISTER})


def agent(agent_id: str = "worker", **changed: Any) -> Agent:
    known = Agent(agent_id, "here", "cis", "claude", ("coding", "a<b>"), AgentStatus.IDLE, None, NOW, NOW, NOW - 5_000)
    return known._replace(**changed)


def task(**changed: Any) -> Task:
    request = TaskRequest(
        TaskKey("here", "r"), "t-1", address("alice:there@here"), address("worker@here"), "Peel", Origin("people")
    )
    return Task(request, NOW - 60_000, NOW + 240_000, **changed)


# ---- pages -------------------------------------------------------------------------------------------


def test_a_page_of_a_long_list() -> None:
    """The items are sorted, and the page has the total."""
    numbers = [f"{number:05}" for number in range(50)]
    page = texts.page_of(reversed(numbers), 2, str)
    assert (page.items, page.number, page.total, page.pages) == (numbers[PAGE : 2 * PAGE], 2, 50, 3)
    assert texts.page_of(numbers, 9, str).items == []
    assert texts.page_of([], 1, str).pages == 1
    assert texts.page_of(numbers, 10**6, str).number == texts.MAX_PAGES


@pytest.mark.parametrize(
    ("arguments", "read"),
    [((), ("", 1)), (("3",), ("", 3)), (("a",), ("a", 1)), (("a", "3"), ("a", 3)), (("a", "b"), None)],
)
def test_arguments_with_a_word_and_a_page(arguments: tuple[str, ...], read: object) -> None:
    """Both are optional."""
    assert texts.word_and_page(arguments) == read


def test_a_page_names_the_next_page() -> None:
    """The last page does not."""
    many = [agent(f"w{number:03}") for number in range(50)]
    page = texts.page_of(many, 1, lambda one: one.agent_id)
    said = texts.agents_text(page, "claude", NOW, lambda one: one.last_seen).plain
    assert said.endswith('Page 1 of 3. Send "agents claude 2" for the next page.')
    last = texts.page_of(many, 3, lambda one: one.agent_id)
    assert texts.agents_text(last, "", NOW, lambda one: None).plain.endswith("Page 3 of 3.")
    beyond = texts.page_of(many, 4, lambda one: one.agent_id)
    assert texts.agents_text(beyond, "", NOW, lambda one: None).plain == "There are 3 pages."


# ---- mistakes ----------------------------------------------------------------------------------------


def test_errors_in_commands() -> None:
    """The answer has a suggestion or the usage, with the prefix."""
    no_such = texts.unknown_command(UnknownCommand("<agnets>", "agents"), "!agents ")
    assert no_such.plain == (
        'There is no command "<agnets>". Did you mean "agents"? Send "!agents help" for a list of commands.'
    )
    assert "<agnets>" not in str(no_such.html)
    assert texts.invalid_arguments(InvalidArguments(COMMANDS["agent"]), "").plain == (
        "Usage: agent ADDRESS – show an agent and its route."
    )


# ---- answers -----------------------------------------------------------------------------------------


def test_help_lists_the_permitted_commands() -> None:
    """The help of a single command lists its requirements for everybody."""
    for_all = texts.help_text("@bob:there", RIGHTS, "!agents ").plain
    assert "!agents agents [WORD] [PAGE] – " in for_all
    assert "peers" not in for_all
    assert "peers" in texts.help_text("@carol:there", RIGHTS, "").plain
    one = texts.help_text("@bob:there", RIGHTS, "", COMMANDS["peers"]).plain
    assert 'needs the permission "administer" and a second permission' in one


def test_agents_are_listed() -> None:
    """Each on a line with status, runtime, capabilities and when it was last seen."""
    page = texts.page_of([agent()], 1, lambda one: one.agent_id)
    said = texts.agents_text(page, "", NOW, lambda one: one.last_seen)
    assert said.plain == "- worker@here · idle · claude · coding, a<b> · last seen 5 s ago"
    assert "<b>" not in str(said.html)
    assert texts.agents_text(Page([], 1, 0), "x", NOW, lambda one: None).plain == 'No agent matches "x".'
    assert texts.agents_text(Page([], 1, 0), "", NOW, lambda one: None).plain == "There are no agents."
    assert texts.searchable_text(agent()) == "worker@here idle claude coding a<b>"


def test_an_agent_is_described() -> None:
    """How it is reached, and what it can do; or why there is no way."""
    assert texts.agent_text(agent(), "It is here.").plain == "It is here.\nCapabilities: coding, a<b>"
    assert texts.agent_text(None, "No node is known.").plain == "No node is known."


def test_rooms_are_listed() -> None:
    """With a link by which clients join."""
    page = Page([RoomOfAgents("default", "#agents-default:here:7676")], 1, 1)
    said = texts.rooms_text(page, invited=False)
    assert said.plain == "- #agents-default:here:7676 – the agents of the namespace default"
    assert 'href="https://matrix.to/#/%23agents-default%3Ahere%3A7676"' in str(said.html)
    assert texts.rooms_text(page, invited=True).plain.endswith("\nYou have been invited to them.")
    assert texts.rooms_text(Page([], 1, 0), invited=True).plain == "There are no rooms of agents."


def test_tasks_are_listed() -> None:
    """How they stand."""
    assert texts.tasks_text([task()], NOW, "here", name="t-1").plain == (
        "- ⏳ t-1: @alice:there asks worker@here · received · requested 1 min ago, 4 min left"
    )
    failed = task(state=State.TIMED_OUT, finished_at=NOW - 10_000, answer=failure(TaskError(ErrorCode.TIMEOUT, "x")))
    assert texts.task_text(failed, NOW, "here").plain == (
        "❌ t-1: @alice:there asks worker@here · timed out (TIMEOUT) · 10 s ago, after 50 s"
    )
    assert texts.tasks_text([], NOW, "here", name="t\n9").plain == 'No task "t 9" was found.'
    assert texts.tasks_text([], NOW, "here", name=None).plain == "You have no tasks."


def test_peers_are_listed() -> None:
    """Where they are, whether they are trusted, and since when one is silent."""
    nodes = [
        AgentNode("garden", None, trusted=True, first_seen_at=1, last_heartbeat=NOW - 3_000),
        AgentNode("kitchen", "http://10.0.0.1:7676", trusted=False, first_seen_at=1, silent_since=NOW - 60_000),
    ]
    nodes.append(AgentNode("here", None, trusted=False, first_seen_at=1, last_heartbeat=NOW))
    said = texts.peers_text(Page(nodes, 1, 3), {"garden": 1, "kitchen": 3, "here": 0}.__getitem__, NOW, "here")
    assert said.plain == (
        "- garden · 1 agent, discovered by name, last heartbeat 3 s ago\n"
        "- kitchen · 3 agents, at http://10.0.0.1:7676, not trusted, silent since 1 min ago\n"
        "- here · 0 agents, this node"
    )
    assert texts.peers_text(Page([], 1, 0), len, NOW, "here").plain == "No nodes are known."
