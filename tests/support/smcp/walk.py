"""Steps of a published, unmodified Agent and Computer in an office of any server.

A step takes both, connected and in the office, and leaves them so: begin with `arrive`, go through `STEPS` in
any order. What servers differ in is in the `Expectations`; what versions differ in, it reads from the peers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.support.smcp.expectations import Expectations
from tests.support.smcp.processes import Peers, PublishedAgent, PublishedComputer
from tests.support.smcp.walk_calls import (
    walk_call,
    walk_calls_at_once,
    walk_cancel,
    walk_large,
    walk_timeout,
    walk_tool_error,
    walk_unknown_computer,
)  # fmt: skip
from tests.support.smcp.walk_getters import (
    walk_config,
    walk_desktop,
    walk_get_blob,
    walk_put_blob,
    walk_resources,
    walk_skills,
    walk_tools,
)  # fmt: skip
from tests.support.smcp.walk_membership import (
    arrive,
    walk_disconnect,
    walk_join_again,
    walk_leave,
    walk_list,
    walk_notifications,
    walk_reconnect,
)  # fmt: skip

__all__ = ["STEPS", "Expectations", "Pair", "Step", "arrive"]

Step = Callable[[PublishedAgent, PublishedComputer, Expectations], Awaitable[None]]

STEPS: tuple[Step, ...] = (
    walk_list, walk_tools, walk_config, walk_desktop, walk_resources, walk_skills, walk_get_blob,
    walk_put_blob, walk_call, walk_calls_at_once, walk_tool_error, walk_large, walk_timeout, walk_cancel,
    walk_unknown_computer, walk_notifications, walk_join_again, walk_leave, walk_disconnect, walk_reconnect,
)  # fmt: skip


@dataclass
class Pair:
    """An Agent and a Computer in one office."""

    peers: Peers
    agent: PublishedAgent
    computer: PublishedComputer
    expectations: Expectations

    async def walk(self, step: Step) -> None:
        """Run one step; a failure shows what the processes logged."""
        try:
            await step(self.agent, self.computer, self.expectations)
        except BaseException as error:
            self.peers.explain(error)
            raise
