"""Settings of offices and the choice of a rule."""

from bridge.connectors.offices.protocol.versions import ProtocolLine
from bridge.connectors.offices.settings import NO_APPROVAL, ApprovalRule, OfficeSettings

DENY = ApprovalRule("lab", "*__rm", "deny")
ASK = ApprovalRule("lab", "*", "ask", 30, ("@alice:here.test",))
AUTO = ApprovalRule("*", "*__read", "auto")
REST = ApprovalRule(approval="deny")


def test_the_first_matching_rule_applies() -> None:
    """Even if a later one is more specific."""
    settings = OfficeSettings(rules=(DENY, ASK, AUTO, REST))
    assert settings.rule("lab", "files__rm") is DENY
    assert settings.rule("lab", "files__read") is ASK
    assert settings.rule("den", "files__read") is AUTO
    assert settings.rule("den", "files__write") is REST
    assert settings.rule("Lab", "files__rm") is REST


def test_without_a_matching_rule_no_approval_is_needed() -> None:
    """As without any rules."""
    assert OfficeSettings().rule("lab", "rm") is NO_APPROVAL
    assert OfficeSettings(rules=(DENY,)).rule("den", "files__rm").approval == "auto"


def test_the_defaults_serve_all_published_clients() -> None:
    """Once offices are enabled."""
    settings = OfficeSettings()
    assert not settings.enabled
    assert settings.versions == (ProtocolLine(0, 2), ProtocolLine(0, 3), ProtocolLine(0, 4))
    assert (settings.profile, settings.accept_unversioned) == ("wire", True)
