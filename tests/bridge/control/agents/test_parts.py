"""What the commands work on."""

import dataclasses

from bridge.control.agents.context import Parts
from tests.support.operated import Operated


def test_it_is_of_one_centre(node: Operated) -> None:
    """All of it is there once the core has been made."""
    assert {field.name for field in dataclasses.fields(Parts)} >= {"routes", "desk", "local", "feed"}
    assert node.parts.routes is node.core.table
    assert node.parts.desk is node.core.desk
