"""A task as an agent gets it."""

from dataclasses import FrozenInstanceError

import pytest

from tests.bridge.agent_tasks import task


def test_it_does_not_change_on_its_way() -> None:
    """Several look at it at once: who gives it, who runs it, who reports."""
    given = task()
    with pytest.raises(FrozenInstanceError):
        given.prompt = "Do something else."  # type: ignore[misc] # that is what is tried
    assert (given.context, given.system_prompt, given.model, given.metadata) == ("", None, None, {})
