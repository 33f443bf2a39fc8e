"""The environment of an agent's process."""

from bridge.agents.local.command import MAX_ARGUMENT_BYTES, agent_environment, task_environment
from tests.bridge.agents.agent_tasks import task

NODE = {
    "PATH": "/bin",
    "HOME": "/home/palaver",
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "TERM": "xterm",
    "PALAVER_DATABASE__URL": "postgresql://db",
    "PGPASSWORD": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "ANTHROPIC_API_KEY": "key",
}


def test_few_variables_are_inherited() -> None:
    """What a program needs to run, and what the operator names."""
    assert agent_environment(NODE, ["ANTHROPIC_API_KEY", "NOT_THERE"], {"MORE": "1", "LANG": "C"}) == {
        "PATH": "/bin",
        "HOME": "/home/palaver",
        "LANG": "C",
        "LC_TIME": "de_DE.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "ANTHROPIC_API_KEY": "key",
        "MORE": "1",
    }
    assert agent_environment({}, [], {})["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_the_variables_of_a_task() -> None:
    """A value that the task lacks has no variable."""
    made = task_environment(task(metadata={"a": [1, "é"]}))
    assert made.variables == {
        "PALAVER_TASK_ID": "task-1",
        "PALAVER_TASK_REQUEST_ID": "request-1",
        "PALAVER_TASK_FROM": "boss@office.local",
        "PALAVER_TASK_TO": "worker-1@kitchen.local",
        "PALAVER_TASK_ATTEMPT": "1",
        "PALAVER_TASK_DEADLINE": "1800000000000",
        "PALAVER_TASK_CONTEXT": "",
        "PALAVER_TASK_METADATA": '{"a":[1,"é"]}',
    }
    assert made.files == {}
    made = task_environment(task(context="c", system_prompt="s", model="m"))
    assert made.variables["PALAVER_TASK_CONTEXT"] == "c"
    assert made.variables["PALAVER_TASK_SYSTEM_PROMPT"] == "s"
    assert made.variables["PALAVER_TASK_MODEL"] == "m"


def test_a_value_that_cannot_be_a_variable_is_in_a_file() -> None:
    """Too long, counted in bytes, or with NUL."""
    long, nul = "é" * (MAX_ARGUMENT_BYTES // 2 + 1), "a\0b"
    made = task_environment(task(context=long, system_prompt=nul, metadata={"a": "\0"}))
    assert made.files == {"PALAVER_TASK_CONTEXT_FILE": long, "PALAVER_TASK_SYSTEM_PROMPT_FILE": nul}
    assert "PALAVER_TASK_CONTEXT" not in made.variables
    assert made.variables["PALAVER_TASK_METADATA"] == '{"a":"\\u0000"}'
    exact = "x" * MAX_ARGUMENT_BYTES
    assert task_environment(task(context=exact)).variables["PALAVER_TASK_CONTEXT"] == exact
