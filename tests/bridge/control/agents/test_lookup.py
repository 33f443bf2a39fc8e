"""Finding an agent or a task by what the operator typed."""

import pytest

from bridge.agents.updates import Unregistration
from bridge.control.agents.lookup import find_agent, find_task
from bridge.tasks.request import TaskKey
from storage.errors import LocalError
from tests.federation.nodes import now_ms
from tests.support.agents import address, registered
from tests.support.operated import Operated
from tests.support.tasks import request


async def test_an_agent_is_found_by_its_address_or_id(node: Operated) -> None:
    """A local agent has precedence. An id of several remote agents is ambiguous, unless only one of them is
    online."""
    now = now_ms()
    await node.table.update([registered("worker@a.test", now), registered("worker@b.test", now)])
    assert find_agent(node.parts, "worker@b.test").node_id == "b.test"
    with pytest.raises(LocalError, match=r"2 agents with the id worker: worker@a.test, worker@b.test"):
        find_agent(node.parts, "worker")
    await node.table.update([Unregistration(address("worker@a.test"), "shutdown", now + 1)])
    assert find_agent(node.parts, "worker").node_id == "b.test"
    await node.local_agents.register("worker")
    assert find_agent(node.parts, "worker").node_id == "here.test"
    assert find_agent(node.parts, "worker@a.test").gone_reason == "shutdown"
    assert find_agent(node.parts, "@worker:b.test").node_id == "b.test"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a@b@c", "That is not an address."),
        ("nobody", "No agent nobody is known."),
        ("nobody@b.test", "No node b.test is known."),
        ("@", "That is not an address."),
        ("@:b.test", "That is not an address."),
        ("@nobody:b.test", "No node b.test is known."),
    ],
)
async def test_an_unknown_agent_is_an_error(node: Operated, text: str, sentence: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(LocalError, match=sentence):
        find_agent(node.parts, text)


async def test_a_task_is_found_by_its_key_or_an_id(node: Operated) -> None:
    """Two nodes can use the same request id. Then only the key is unique."""
    for node_id in ("living", "kitchen"):
        await node.core.tasks.submit(
            request(key=TaskKey(node_id, "req-1"), task_id=f"task-of-{node_id}", to="worker@here.test")
        )
    await node.core.tasks.submit(request("a@b", to="worker@here.test"))
    assert (await find_task(node.parts, "req-1@kitchen")).key.node_id == "kitchen"
    assert (await find_task(node.parts, "task-of-living")).key.node_id == "living"
    assert (await find_task(node.parts, "a@b")).key.request_id == "a@b"
    with pytest.raises(LocalError, match="Several tasks have the id req-1"):
        await find_task(node.parts, "req-1")
    with pytest.raises(LocalError, match="No task req-9 is stored"):
        await find_task(node.parts, "req-9")


async def test_a_task_is_found_by_the_beginning_of_its_id(node: Operated) -> None:
    """If it is unique. The common beginning of ids that the node makes may be omitted."""
    for request_id in ("operator-3fa912", "operator-3fb034", "x_1", "xa1"):
        await node.core.tasks.submit(request(request_id, to="worker@here.test"))
    assert (await find_task(node.parts, "3fa")).key.request_id == "operator-3fa912"
    assert (await find_task(node.parts, "operator-3fb")).key.request_id == "operator-3fb034"
    with pytest.raises(LocalError, match="Several tasks have the id operator-3f"):
        await find_task(node.parts, "operator-3f")
    for text in ("3f", "x_", "x%1", "fa912"):
        with pytest.raises(LocalError, match="No task"):
            await find_task(node.parts, text)
