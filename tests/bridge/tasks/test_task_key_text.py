"""The name of a task on the command line."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.tasks.request import TaskKey, key_text, read_key

_NODES = st.text(st.characters(exclude_characters="@\0", exclude_categories=["Cs"]), min_size=1, max_size=50)


@given(st.text(min_size=1), _NODES)
def test_a_key_is_read_as_it_is_written(request_id: str, node_id: str) -> None:
    """Whatever the request id contains: a node id never contains an @."""
    key = TaskKey(node_id, request_id)
    assert read_key(key_text(key)) == key


def test_a_text_without_a_node_is_no_key() -> None:
    """Such a task is searched for by its id alone."""
    for text in ("", "req-1", "@living", "req-1@", "@", "a@b\0"):
        assert read_key(text) is None
    assert read_key("a@b@living") == TaskKey("living", "a@b")
