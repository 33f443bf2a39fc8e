"""What a program can do."""

from bridge.agents.attached.messages import AGENT, OPERATIONS, OPERATIONS_BY_NAME


def test_each_has_a_name_and_a_place_of_its_own() -> None:
    """Two that are called alike could not be told apart in a WebSocket, nor two at one place over HTTP."""
    assert len(OPERATIONS_BY_NAME) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)


def test_all_are_about_an_agent() -> None:
    """Whose token is shown; and what speaks of a task names it."""
    for one in OPERATIONS:
        assert one.path.startswith(AGENT)
        assert one.of_task == one.path.endswith(("/begin", "/progress", "/result", "/failure"))
        assert (one.method in {"GET", "DELETE"}) == (one.request_type is None or one.in_query)
