"""The authorisation rules of room versions 3 to 12. Each file is a rule of the specification, or a few."""

from federation.auth_rules.auth_event_selection import CREATE, selected, state_needed
from federation.auth_rules.general import (
    check,
    check_against_auth_events,
    check_independent,
    is_judged_by_name,
)
from federation.auth_rules.verdict import ALLOWED, Allowed, Refused, Verdict

__all__ = [
    "ALLOWED",
    "CREATE",
    "Allowed",
    "Refused",
    "Verdict",
    "check",
    "check_against_auth_events",
    "check_independent",
    "is_judged_by_name",
    "selected",
    "state_needed",
]
