"""Under which id another node gets a task."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol.request_ids import outgoing_request_id, task_key
from bridge.tasks.request import TaskKey
from tests.bridge.connectors.cis.samples import HONEST_TEXT

NODES = st.sampled_from(["here", "there:7676", "ein node", "via:", "ü"])


def test_tasks_of_ones_own_keep_their_id() -> None:
    """As the specification has it."""
    assert outgoing_request_id(TaskKey("here", "req-1"), "here") == "req-1"
    assert task_key("req-1", "here") == TaskKey("here", "req-1")


def test_of_others_it_says_where_they_come_from() -> None:
    """Two nodes may have chosen the same id; and nobody can choose the id of another's task."""
    assert outgoing_request_id(TaskKey("there:7676", "req:1"), "here") == "via:there%3A7676:req:1"
    assert task_key("via:there%3A7676:req:1", "here") == TaskKey("there:7676", "req:1")
    own = TaskKey("here", "via:there:req-1")
    assert outgoing_request_id(own, "here") == "via:here:via:there:req-1"


@given(NODES, HONEST_TEXT)
def test_it_leads_back_to_the_task(node_id: str, name: str) -> None:
    """Whatever it is called."""
    key = TaskKey(node_id, name)
    written = outgoing_request_id(key, "here")
    assert written is not None
    assert task_key(written, "here") == key


def test_one_that_is_too_long_cannot_be_sent() -> None:
    """Names have at most 255 bytes."""
    assert outgoing_request_id(TaskKey("there", "x" * 250), "here") is None
    assert outgoing_request_id(TaskKey("here", "x" * 255), "here") == "x" * 255
