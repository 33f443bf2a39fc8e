"""The operations of the API."""

from bridge.agents.attached.messages import AGENT, OPERATIONS, OPERATIONS_BY_NAME


def test_each_operation_has_its_own_name_and_route() -> None:
    """The WebSocket distinguishes operations by name, HTTP by method and path."""
    assert len(OPERATIONS_BY_NAME) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)


def test_each_path_names_the_agent() -> None:
    """Whose token is required; paths about a task name it."""
    for one in OPERATIONS:
        assert one.path.startswith(AGENT)
        assert one.of_task == one.path.endswith(("/begin", "/progress", "/result", "/failure"))
        assert (one.method in {"GET", "DELETE"}) == (one.request_type is None or one.in_query)
