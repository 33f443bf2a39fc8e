"""Whether another server can be reached, believed and spoken with, and if not, what is wrong and what to do:
what a federation tester checks. The facts are gathered by `federation.service.peer_check`."""

from federation.peer_check.facts import Facts
from federation.peer_check.finding import Finding, Verdict, worst
from federation.peer_check.report import report

__all__ = ["Facts", "Finding", "Verdict", "report", "worst"]
