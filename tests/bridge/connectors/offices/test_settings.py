"""What the configuration says of offices, and which rule of it holds."""

from bridge.connectors.offices.protocol.versions import Line
from bridge.connectors.offices.settings import NOBODY_IS_ASKED, ApprovalRule, OfficeSettings

DENY = ApprovalRule("lab", "*__rm", "deny")
ASK = ApprovalRule("lab", "*", "ask", 30, ("@alice:here.test",))
FREE = ApprovalRule("*", "*__read", "auto")
REST = ApprovalRule(approval="deny")


def test_the_first_rule_that_fits_holds() -> None:
    """However much better a later one would fit."""
    settings = OfficeSettings(rules=(DENY, ASK, FREE, REST))
    assert settings.rule("lab", "files__rm") is DENY
    assert settings.rule("lab", "files__read") is ASK
    assert settings.rule("den", "files__read") is FREE
    assert settings.rule("den", "files__write") is REST
    assert settings.rule("Lab", "files__rm") is REST


def test_where_no_rule_fits_nobody_is_asked() -> None:
    """A call goes through, as it does where there are no rules."""
    assert OfficeSettings().rule("lab", "rm") is NOBODY_IS_ASKED
    assert OfficeSettings(rules=(DENY,)).rule("den", "files__rm").approval == "auto"


def test_who_says_nothing_serves_all_published_clients() -> None:
    """Once it is switched on."""
    settings = OfficeSettings()
    assert not settings.enabled
    assert settings.versions == (Line(0, 2), Line(0, 3), Line(0, 4))
    assert (settings.profile, settings.accept_unversioned) == ("wire", True)
