"""What agents say they can do: names such as `coding`, or `runtime:kimi`."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from federation.glob import Glob

MOST: Final = 64
LONGEST: Final = 128
"""Characters of one name."""

Capabilities = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoCapabilities:
    """What was said is none, and why."""

    reason: str


def read_capabilities(said: object) -> Capabilities | NoCapabilities:
    """Each once, in their order. A name is compared as it is written, but for upper and lower case."""
    if not isinstance(said, list | tuple):
        return NoCapabilities("capabilities are a list of names")
    if len(said) > MOST:
        return NoCapabilities(f"an agent has at most {MOST} capabilities")
    names: dict[str, str] = {}
    for name in said:
        if not isinstance(name, str):
            return NoCapabilities("the name of a capability is a string")
        if not 0 < len(name) <= LONGEST:
            return NoCapabilities(f"the name of a capability has 1 to {LONGEST} characters")
        if not name.isprintable() or name != name.strip():
            return NoCapabilities("the name of a capability is printable, without space around it")
        names.setdefault(name.casefold(), name)
    return tuple(names.values())


def missing(capabilities: Collection[str], wanted: Iterable[str]) -> Capabilities:
    """Those of the wanted ones that are not there. `*` and `?` in a wanted name stand for any characters and
    for one."""
    return tuple(name for name in wanted if not _has(capabilities, name))


def _has(capabilities: Collection[str], wanted: str) -> bool:
    folded = wanted.casefold()
    if "*" in folded or "?" in folded:
        glob = Glob(folded)
        return any(glob.matches(name.casefold()) for name in capabilities)
    return any(name.casefold() == folded for name in capabilities)
