"""The authorisation rules of room versions 3 to 12. Each file has one or a few rules of the specification."""

from federation.auth_rules.auth_event_selection import auth_event_keys, required_state
from federation.auth_rules.check import check, check_against_auth_events, check_independent
from federation.auth_rules.verdict import ALLOWED, Allowed, Refused, Verdict

__all__ = [
    "ALLOWED",
    "Allowed",
    "Refused",
    "Verdict",
    "auth_event_keys",
    "check",
    "check_against_auth_events",
    "check_independent",
    "required_state",
]
