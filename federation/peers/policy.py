"""With which servers this node speaks: closed to all but those it knows, or open to all but some."""

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field

from federation.matrix.globs import Glob


@dataclass(frozen=True, slots=True)
class FederationPolicy:
    """`known`: the server names of the configuration. `refused`: names, with `*` and `?`, that are refused
    whatever else holds; they are compared without regard to case. `added` and `distrusted`: names, in lower
    case, that become known, or are refused whatever else holds, while the node runs; they are looked at each
    time."""

    is_open: bool = False
    known: frozenset[str] = frozenset()
    refused: tuple[Glob, ...] = ()
    added: Container[str] = field(default=frozenset(), repr=False)
    distrusted: Container[str] = field(default=frozenset(), repr=False)

    def admits(self, server_name: str) -> bool:
        """In both directions: whom we do not answer we do not ask either."""
        name = server_name.lower()
        if name in self.distrusted:
            return False
        if self.refused and any(pattern.matches(name) for pattern in self.refused):
            return False
        return self.is_open or name in self.known or name in self.added


def policy(known: Collection[str], *, is_open: bool, refused: Iterable[str] = ()) -> FederationPolicy:
    return FederationPolicy(
        is_open, frozenset(name.lower() for name in known), tuple(Glob(pattern) for pattern in refused)
    )
