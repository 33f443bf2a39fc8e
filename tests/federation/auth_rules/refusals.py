"""The table of refusals: each test module registers its cases that a rule must refuse, and `test_rules`
checks that no rule of any room version is left out."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from federation.auth_rules import Refused, Verdict
from federation.auth_rules.rules import REFUSALS

MakesVerdict = Callable[[str], Verdict]


@dataclass(frozen=True)
class RefusalCase:
    """A case that one rule refuses, in all versions that have the rule or in some of them."""

    key: str
    name: str
    module: str
    verdict: MakesVerdict
    versions: Collection[str]


_TABLE: Final[dict[tuple[str, str], RefusalCase]] = {}


def refused_by(key: str, versions: Collection[str] | None = None) -> Callable[[MakesVerdict], MakesVerdict]:
    """Register a case. It gets the name of a room version and returns the verdict."""

    def register(makes_verdict: MakesVerdict) -> MakesVerdict:
        name, module = makes_verdict.__name__, makes_verdict.__module__
        having = [version for version, rules in REFUSALS.items() if key in rules]
        assert having, f"no version has a rule {key}"
        _TABLE[module, name] = RefusalCase(key, name, module, makes_verdict, versions or having)
        return makes_verdict

    return register


def refusals(module: str | None = None) -> Iterator[tuple[str, RefusalCase]]:
    """All cases of a test module, or of all imported modules, with each of their versions."""
    for refusal in _TABLE.values():
        if module in (None, refusal.module):
            for version in refusal.versions:
                yield version, refusal


def cases_of(module: str) -> list[object]:
    """The argument of `pytest.mark.parametrize`: one case and version each."""
    return [pytest.param(version, refusal, id=f"{refusal.name}-{version}") for version, refusal in refusals(module)]


def assert_refused(version: str, refusal: RefusalCase) -> None:
    """By that rule, with its number in this version."""
    verdict = refusal.verdict(version)
    assert isinstance(verdict, Refused), "it was allowed"
    expected = REFUSALS[version][refusal.key]
    assert (verdict.rule, verdict.text) == (expected.rule, expected.text)
