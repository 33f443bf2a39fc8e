"""The services that the commands use."""

import dataclasses

from bridge.control.agents.context import CommandContext
from tests.support.operated import Operated


def test_the_services_are_those_of_the_core(node: Operated) -> None:
    """The commands use the core's routing table and task service."""
    assert {field.name for field in dataclasses.fields(CommandContext)} >= {"routes", "tasks", "local", "feed"}
    assert node.parts.routes is node.core.table
    assert node.parts.tasks is node.core.tasks
