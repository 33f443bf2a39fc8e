"""The table of refusals: who makes an event that a rule must refuse says so here, and `test_rules` sees to
it that no rule of any room version is left out."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from federation.auth_rules import Refused, Verdict
from federation.auth_rules.rules import REFUSALS

MakesVerdict = Callable[[str], Verdict]


@dataclass(frozen=True)
class Refusal:
    """A case that one rule refuses, in every version that has the rule or in some of them."""

    key: str
    name: str
    module: str
    verdict: MakesVerdict
    versions: Collection[str]


_TABLE: Final[dict[tuple[str, str], Refusal]] = {}


def refused_by(key: str, versions: Collection[str] | None = None) -> Callable[[MakesVerdict], MakesVerdict]:
    """Put a case into the table. It is given a version's name and says what the rules said."""

    def put(makes_verdict: MakesVerdict) -> MakesVerdict:
        name, module = makes_verdict.__name__, makes_verdict.__module__
        having = [version for version, rules in REFUSALS.items() if key in rules]
        assert having, f"no version has a rule {key}"
        _TABLE[module, name] = Refusal(key, name, module, makes_verdict, versions or having)
        return makes_verdict

    return put


def refusals(module: str | None = None) -> Iterator[tuple[str, Refusal]]:
    """Every case of a test module, or of all that have been imported, with each version that it is for."""
    for refusal in _TABLE.values():
        if module in (None, refusal.module):
            for version in refusal.versions:
                yield version, refusal


def cases_of(module: str) -> list[object]:
    """What `pytest.mark.parametrize` takes: one case and version each."""
    return [
        pytest.param(version, refusal, id=f"{refusal.name}-{version}")
        for version, refusal in refusals(module)
    ]


def assert_refused(version: str, refusal: Refusal) -> None:
    """By that rule, under the number that it has in this version."""
    verdict = refusal.verdict(version)
    assert isinstance(verdict, Refused), "it was allowed"
    expected = REFUSALS[version][refusal.key]
    assert (verdict.rule, verdict.text) == (expected.rule, expected.text)
