"""What a connection says of itself in its CONNECT, beside its token: what it can read that the protocol does
not have.

`{"token": …, "palaver": {"tasks": true}}`: the Agent reads tasks. The reference server, and whoever knows
nothing of it, passes over that key.
"""

from collections.abc import Mapping
from typing import Final

KEY: Final = "palaver"
TASKS: Final = "tasks"


def reads_tasks(auth: object) -> bool:
    """`auth` is what a stranger has sent."""
    said = auth.get(KEY) if isinstance(auth, Mapping) else None
    return isinstance(said, Mapping) and said.get(TASKS) is True
