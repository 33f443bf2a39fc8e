"""The directory that an agent works in when nothing else is said: its name cannot lead anywhere else."""

from hashlib import sha256
from typing import Final
from urllib.parse import quote

_LONGEST: Final = 120
"""Bytes. File systems allow 255."""
_HASH: Final = 16


def directory_name(agent_id: str) -> str:
    """Readable where the id is; never `.`, never `..`, without a slash, and another one for another agent."""
    name = (
        quote(agent_id, safe="").replace(".", "%2E") if agent_id.startswith(".") else quote(agent_id, safe="")
    )
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{sha256(agent_id.encode()).hexdigest()[:_HASH]}"
