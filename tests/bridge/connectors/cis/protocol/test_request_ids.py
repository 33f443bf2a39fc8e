"""The request ids under which this node sends tasks."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol.request_ids import outgoing_request_id, task_key
from bridge.tasks.request import TaskKey
from tests.bridge.connectors.cis.samples import HONEST_TEXT

NODES = st.sampled_from(["here", "there:7676", "ein node", "via:", "ü"])


def test_tasks_of_local_agents_keep_their_id() -> None:
    """As in the specification."""
    assert outgoing_request_id(TaskKey("here", "req-1"), "here") == "req-1"
    assert task_key("req-1", "here") == TaskKey("here", "req-1")


def test_other_ids_contain_the_requesters_node() -> None:
    """Two nodes may use the same id, and no node can choose the id of another's task."""
    assert outgoing_request_id(TaskKey("there:7676", "req:1"), "here") == "via:there%3A7676:req:1"
    assert task_key("via:there%3A7676:req:1", "here") == TaskKey("there:7676", "req:1")
    own = TaskKey("here", "via:there:req-1")
    assert outgoing_request_id(own, "here") == "via:here:via:there:req-1"


@given(NODES, HONEST_TEXT)
def test_the_task_key_is_recovered(node_id: str, name: str) -> None:
    """For any id."""
    key = TaskKey(node_id, name)
    written = outgoing_request_id(key, "here")
    assert written is not None
    assert task_key(written, "here") == key


def test_an_id_that_is_too_long_cannot_be_sent() -> None:
    """Ids have at most 255 bytes."""
    assert outgoing_request_id(TaskKey("there", "x" * 250), "here") is None
    assert outgoing_request_id(TaskKey("here", "x" * 255), "here") == "x" * 255
