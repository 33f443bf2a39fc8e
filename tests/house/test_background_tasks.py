"""Design, rule 10: no background task dies silently."""

import ast
from collections import Counter

from tests.house.source import modules

# How many bare tasks a module still makes, which its caller awaits. This list only shrinks.
EXCEPTIONS: dict[str, int] = {
    "bridge/approvals/service.py": 1,
    "bridge/connectors/offices/server/calls.py": 1,
    "federation/peers/audit_trail.py": 1,
}


def _is_bare(function: ast.expr) -> bool:
    """Return whether it calls asyncio.create_task or a similar function; a TaskGroup's create_task is
    allowed."""
    if isinstance(function, ast.Name):
        return function.id in {"create_task", "ensure_future"}
    if not isinstance(function, ast.Attribute) or function.attr not in {"create_task", "ensure_future"}:
        return False
    holder = function.value
    return (isinstance(holder, ast.Name) and holder.id in {"asyncio", "loop"}) or isinstance(holder, ast.Call)


def test_only_the_supervisor_creates_tasks() -> None:
    """`BackgroundTasks` reports failures and closes in bounded time."""
    found = Counter(
        str(module.relative)
        for module in modules()
        for node in ast.walk(module.tree())
        if isinstance(node, ast.Call) and _is_bare(node.func)
    )
    del found["storage/concurrency.py"]
    assert dict(found) == EXCEPTIONS
