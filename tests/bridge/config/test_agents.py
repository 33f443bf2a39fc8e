"""The configuration of agents that the node runs."""

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.agents import Agent, each_agent_once


def test_a_runtime_is_enough() -> None:
    """Everything else has a default, and the command is known."""
    agent = Agent(id="worker-1", runtime="opencode", arguments=["--agent=plan"])
    assert agent.runtime == "open_code"
    assert agent.words == ("opencode", "run", ["--model={model}"], "--agent=plan")
    assert (agent.namespaces, agent.parallel, agent.busy, agent.time_limit) == (
        ["default"],
        1,
        "queue",
        300.0,
    )


def test_a_command_is_enough() -> None:
    """Of whatever runtime."""
    assert Agent(id="w", command=["./run", ["-m", "{model}"]]).words == ("./run", ["-m", "{model}"])
    assert Agent(id="w", runtime="claude", command=["my-claude"], arguments=["-v"]).words == (
        "my-claude",
        "-v",
    )


@pytest.mark.parametrize("agent_id", ["worker 1", "Wörker", "a/b", "..", "x" * 255])
def test_every_id_that_cis_allows(agent_id: str) -> None:
    """It forbids an `@` and nothing else."""
    assert Agent(id=agent_id, runtime="kimi").id == agent_id


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"id": "a@b"}, "@"),
        ({"id": ""}, "empty"),
        ({"runtime": "nothing-known"}, "how to start"),
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
        ({"environment": {"PALAVER_SERVER_NAME": "1"}}, "node's own"),
        ({"environment": {"A": "\0"}}, "NUL"),
        ({"pass_environment": ["PALAVER_DATABASE__URL"]}, "node's own"),
        ({"time_limit": 0}, "greater than 0"),
        ({"parallel": 0}, "greater than or equal"),
        ({"parallel": 65}, "less than or equal"),
        ({"busy": "wait"}, "queue"),
        ({"max_output": "1GiB"}, "less than or equal"),
        ({"what": 1}, "not permitted"),
    ],
)
def test_what_cannot_work_is_refused(said: dict[str, Any], part: str) -> None:
    """When the node starts, not when the first task comes."""
    with pytest.raises(ValidationError, match=part.replace("{", r"\{")):
        Agent.model_validate({"id": "worker-1", "runtime": "claude", **said})


def test_an_id_stands_for_one_agent() -> None:
    """Of two blocks one would be forgotten."""
    one, other = Agent(id="a", runtime="kimi"), Agent(id="b", runtime="kimi")
    assert each_agent_once([one, other]) == [one, other]
    with pytest.raises(ValueError, match="agents name a more than once"):
        each_agent_once([one, other, one])
