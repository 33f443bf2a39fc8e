"""Which servers this server federates with: only configured ones, or all but refused ones."""

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field

from federation.matrix.globs import Glob


@dataclass(frozen=True, slots=True)
class FederationPolicy:
    """`known`: the configured server names. `refused`: patterns with `*` and `?` of names that are always
    refused, compared without regard to case. `added` and `distrusted`: lower-case names that are known, or
    always refused; they may change at runtime."""

    is_open: bool = False
    known: frozenset[str] = frozenset()
    refused: tuple[Glob, ...] = ()
    added: Container[str] = field(default=frozenset(), repr=False)
    distrusted: Container[str] = field(default=frozenset(), repr=False)

    def admits(self, server_name: str) -> bool:
        """Whether this server federates with the other one, in both directions."""
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
