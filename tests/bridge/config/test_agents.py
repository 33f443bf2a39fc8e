"""The configuration of agents that the node runs as local commands."""

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.agents import Agent, each_agent_once


def test_a_known_runtime_has_a_default_command() -> None:
    """All other settings have defaults."""
    agent = Agent(id="worker-1", runtime="opencode", arguments=["--agent=plan"])
    assert agent.runtime == "open_code"
    assert agent.words == ("opencode", "run", ["--model={model}"], "--agent=plan")
    assert (agent.namespaces, agent.parallel, agent.busy, agent.time_limit) == (["default"], 1, "queue", 300.0)


def test_a_command_replaces_that_of_the_runtime() -> None:
    """The arguments are appended to it."""
    assert Agent(id="w", command=["./run", ["-m", "{model}"]]).words == ("./run", ["-m", "{model}"])
    assert Agent(id="w", runtime="claude", command=["my-claude"], arguments=["-v"]).words == ("my-claude", "-v")


@pytest.mark.parametrize("agent_id", ["worker 1", "Wörker", "a/b", "..", "x" * 255])
def test_every_id_that_cis_allows_is_valid(agent_id: str) -> None:
    """CIS forbids only an `@` in an agent id."""
    assert Agent(id=agent_id, runtime="kimi").id == agent_id


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"id": "a@b"}, "@"),
        ({"id": ""}, "empty"),
        ({"runtime": "nothing-known"}, "has no command"),
        ({"runtime": "No Such"}, "runtime"),
        ({"command": []}, "program"),
        ({"command": [""]}, "program"),
        ({"command": [["a"]]}, "program"),
        ({"command": "claude -p"}, "list"),
        ({"command": ["a", "{modle}"]}, "{{modle}}"),
        ({"command": ["a\0b"]}, "NUL"),
        ({"capabilities": ["a\nb"]}, "printable"),
        ({"namespaces": []}, "at least 1"),
        ({"namespaces": ["A B"]}, "namespace"),
        ({"environment": {"A-B": "1"}}, "name of a variable"),
        ({"environment": {"PALAVER_SERVER_NAME": "1"}}, "reserved for the node"),
        ({"environment": {"A": "\0"}}, "NUL"),
        ({"pass_environment": ["PALAVER_DATABASE__URL"]}, "reserved for the node"),
        ({"time_limit": 0}, "greater than 0"),
        ({"parallel": 0}, "greater than or equal"),
        ({"parallel": 65}, "less than or equal"),
        ({"busy": "wait"}, "queue"),
        ({"max_output": "1GiB"}, "less than or equal"),
        ({"what": 1}, "not permitted"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], part: str) -> None:
    """The error is raised when the configuration is read, not when the first task arrives."""
    with pytest.raises(ValidationError, match=part.replace("{", r"\{")):
        Agent.model_validate({"id": "worker-1", "runtime": "claude", **settings})


def test_an_agent_id_is_unique() -> None:
    """A second block with the same id is refused."""
    one, other = Agent(id="a", runtime="kimi"), Agent(id="b", runtime="kimi")
    assert each_agent_once([one, other]) == [one, other]
    with pytest.raises(ValueError, match="agents name a more than once"):
        each_agent_once([one, other, one])
