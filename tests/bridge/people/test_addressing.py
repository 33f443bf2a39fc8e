"""The agents to which a message is addressed."""

import pytest

from bridge.agents.address import AgentAddress, BareAgentId
from bridge.agents.routing import Local, Remote, Route, Unknown
from bridge.people.addressing import find_addressees, names, strip_names
from bridge.people.message import Message
from bridge.tasks.errors import ErrorCode
from tests.support.agents import address

WORKER, KITCHEN = address("worker-1@here.test"), address("worker-1@kitchen.test")
HELPER = address("helper@here.test")
USERS = {"@worker-1:here.test": WORKER, "@helper:here.test": HELPER, "@worker-1:kitchen.test": KITCHEN}
NOT_THERE = Unknown(ErrorCode.AGENT_NOT_FOUND, "No.", (WORKER,))


def route(target: AgentAddress | BareAgentId) -> Route:
    if target in {WORKER, HELPER}:
        assert isinstance(target, AgentAddress)
        return Local(target)
    if target == KITCHEN:
        return Remote(KITCHEN, None)
    return Local(WORKER) if target == BareAgentId("worker-1") else NOT_THERE


@pytest.mark.parametrize(
    ("body", "agents", "prompt"),
    [
        ("@worker-1: peel", [WORKER], "peel"),
        ("@worker-1, peel", [WORKER], "peel"),
        ("@worker-1 peel\nthem", [WORKER], "peel\nthem"),
        ("@worker-1\npeel", [WORKER], "peel"),
        ("worker-1@kitchen.test peel", [KITCHEN], "peel"),
        ("worker-1@kitchen.test: peel", [KITCHEN], "peel"),
        ("@worker-1@kitchen.test peel", [KITCHEN], "peel"),
        ("@worker-1:kitchen.test peel", [KITCHEN], "peel"),
        ("@worker-1:kitchen.test: peel", [KITCHEN], "peel"),
        ("@worker-1:", [WORKER], ""),
        ("worker-1: peel", [], "worker-1: peel"),
        ("peel @worker-1", [], "peel @worker-1"),
        ("", [], ""),
        ("@", [], "@"),
        ("@@@ x", [], "@@@ x"),
    ],
)
def test_an_agent_can_be_named_at_the_beginning(body: str, agents: list[AgentAddress], prompt: str) -> None:
    """By id, address or user id. The id alone without @ is an ordinary word."""
    found = find_addressees(Message(body, "m.text"), USERS.get, route)
    assert (list(found.agents), found.prompt, found.unknown) == (agents, prompt, None)


@pytest.mark.parametrize("body", ["@worker-9: peel", "worker-1@garden.test peel"])
def test_an_unknown_agent_is_reported(body: str) -> None:
    """Unless the message mentions other users."""
    found = find_addressees(Message(body, "m.text"), USERS.get, route)
    assert (found.agents, found.prompt, found.unknown) == ((), body, NOT_THERE)
    # In a message with mentions the first word is ordinary text.
    assert find_addressees(Message(body, "m.text", ("@bob:there.test",)), USERS.get, route).unknown is None


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ("worker-1: peel", "peel"),
        ("@worker-1:here.test: peel", "peel"),
        ("worker-1 peel", "peel"),
        ("please peel, worker-1", "please peel, worker-1"),
        ("worker-10 peels", "worker-10 peels"),
        ("worker-1", ""),
    ],
)
def test_a_mention_at_the_beginning_is_not_part_of_the_prompt(body: str, prompt: str) -> None:
    """In the forms in which clients write it."""
    found = find_addressees(Message(body, "m.text", ("@worker-1:here.test",)), USERS.get, route)
    assert (found.agents, found.prompt) == ((WORKER,), prompt)


def test_several_agents_and_people_can_be_mentioned() -> None:
    """Each agent once; people are separate."""
    users = ("@worker-1:here.test", "@bob:there.test", "@helper:here.test")
    found = find_addressees(Message("worker-1, helper: peel", "m.text", users), USERS.get, route)
    assert (found.agents, found.prompt, found.others) == ((WORKER, HELPER), "peel", ("@bob:there.test",))
    named_twice = find_addressees(Message("@worker-1 peel", "m.text", users[:1]), USERS.get, route)
    assert named_twice.agents == (WORKER,)


def test_names_are_removed_as_a_whole() -> None:
    """The longest first, and repeatedly."""
    calls = names("@worker-1:here.test", WORKER)
    assert strip_names("worker-1@here.test worker-1, peel", calls) == "peel"
    assert strip_names("worker-1.5 is a version", calls) == "worker-1.5 is a version"
    assert strip_names("", calls) == ""


def test_agents_of_an_appservice_can_be_named() -> None:
    """By id, address, user id and display name."""
    user = "@_agent_worker-1:their.server"
    agents = {user: WORKER}.get
    for body, mentioned in (
        ("@worker-1: peel", ()),
        ("worker-1@here.test: peel", ()),
        (f"{user}: peel", ()),
        (f"{user}: peel", (user,)),
        ("worker-1: peel", (user,)),
        ("_agent_worker-1: peel", (user,)),
        ("The peeler: peel", (user,)),
    ):
        message = Message(body, "m.text", mentioned, pills=((user, "The peeler"),))
        found = find_addressees(message, agents, route)
        assert (found.agents, found.prompt) == ((WORKER,), "peel")
