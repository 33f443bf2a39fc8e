"""The configuration section [offices]."""

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.config import Config
from bridge.config.errors import Mistake, read_config
from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from bridge.connectors.offices.config import OfficeRule, Offices, office_settings
from bridge.connectors.offices.protocol.versions import ProtocolLine
from bridge.connectors.offices.settings import ApprovalRule, OfficeSettings

WRITTEN = """
[offices]
enabled = true
path = "/offices/socket.io/"
versions = ["0.4", "0.10", "0.2"]
accept_unversioned = false
list_before_join = true
relay_timeout_secs = 5
most_calls_in_flight = 3
most_members = 4
max_connections = 5
mask = ["customer_number"]
archive_after = "2h"
broker = "redis://redis.here.test:6379/3"
broker_password_file = "broker"

[[offices.rules]]
office = "lab"
tool = "*__rm"
approval = "ask"
deadline_secs = 3600
approvers = ["@alice:here.test", "there.test"]

[[offices.rules]]
approval = "deny"
"""


def test_the_defaults_of_configuration_and_settings_are_equal() -> None:
    """They are written in two places. By default, offices are not served."""
    assert office_settings(Config().offices) == OfficeSettings()
    assert office_settings(Offices(rules=[OfficeRule(approval="auto")])).rules == (ApprovalRule(),)


def test_all_settings_come_from_the_configuration() -> None:
    """Versions are sorted by number, not by text."""
    config = read_config(WRITTEN, {})
    assert isinstance(config, Config)
    assert office_settings(config.offices, "hunter2") == OfficeSettings(
        enabled=True,
        path="/offices/socket.io",
        profile="wire",
        versions=(ProtocolLine(0, 2), ProtocolLine(0, 4), ProtocolLine(0, 10)),
        accept_unversioned=False,
        list_before_join=True,
        relay_timeout=5,
        most_calls_in_flight=3,
        most_members=4,
        max_connections=5,
        mask=("customer_number",),
        rules=(
            ApprovalRule("lab", "*__rm", "ask", 3600, ("@alice:here.test", "there.test")),
            ApprovalRule(approval="deny"),
        ),
        archive_after=7_200,
        broker=BrokerAddress("redis", "redis://redis.here.test:6379/3", "hunter2"),
    )


def test_archiving_can_be_disabled() -> None:
    assert office_settings(Offices(archive_after="never")).archive_after is None


@pytest.mark.parametrize("period", ["", "30", "0d", "-1d", "1.5h", "30 d", "Never", "a month"])
def test_invalid_periods(period: str) -> None:
    """The error shows the form."""
    with pytest.raises(ValidationError, match="write a number and its unit"):
        Offices(archive_after=period)


def test_the_profile_spec_accepts_one_version() -> None:
    """ "`spec`: one version, published rule". Clients without a version are refused."""
    settings = office_settings(Offices(profile="spec"))
    assert (settings.versions, settings.accept_unversioned) == ((ProtocolLine(0, 4),), False)
    assert office_settings(Offices(profile="spec", versions=["1.0"])).versions == (ProtocolLine(1, 0),)


@pytest.mark.parametrize("path", ["/socket.io", "/a", "/a/b-c_d~e.f", "/" + "x" * 254, "/socket.iox"])
def test_valid_paths(path: str) -> None:
    """A trailing slash makes no difference."""
    assert Offices(path=path).path == path == Offices(path=path + "/").path


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("", "does not begin with a slash"),
        ("socket.io", "does not begin with a slash"),
        ("http://here.test/socket.io", "does not begin with a slash"),
        (" /socket.io", "does not begin with a slash"),
        ("/../socket.io", "contains "),
        ("/a..b", "contains "),
        ("/", "is not a valid path"),
        ("//", "is not a valid path"),
        ("/a//b", "is not a valid path"),
        ("/socket io", "is not a valid path"),
        ("/socket.io\n", "is not a valid path"),
        ("/socket\tio", "is not a valid path"),
        ("/socket\u00a0io", "is not a valid path"),
        ("/socket.io?a=b", "is not a valid path"),
        ("/socket.io#a", "is not a valid path"),
        ("/socket%2eio", "is not a valid path"),
        ("/{name}", "is not a valid path"),
        ("/\0", "is not a valid path"),
        ("/" + "x" * 255, "is not a valid path"),
        ("/_matrix", "serves other requests"),
        ("/_matrix/client", "serves other requests"),
        ("/_palaver/x/", "serves other requests"),
        ("/.well-known", "serves other requests"),
        ("/health/live", "serves other requests"),
    ],
)
def test_invalid_paths(path: str, part: str) -> None:
    """Including those at which the node serves other endpoints."""
    with pytest.raises(ValidationError, match=part):
        Offices(path=path)


@pytest.mark.parametrize(
    "version", ["", "0", "0.4.0", "v0.4", "0.4 ", "0.4\n", "0.04", "00.4", "-1.0", "a.b", "0.٤", "0." + "1" * 30]
)
def test_invalid_versions(version: str) -> None:
    """A version has no patch number, and only one spelling."""
    with pytest.raises(ValidationError, match="is not a version"):
        Offices(versions=["0.4", version])


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"versions": []}, "at least 1"),
        ({"versions": ["0.4", "0.3", "0.4"]}, r"0\.4 is listed more than once"),
        ({"versions": [0.4]}, "valid string"),
        ({"profile": "letter"}, "'wire' or 'spec'"),
        ({"relay_timeout_secs": 0}, "greater than 0"),
        ({"relay_timeout_secs": float("inf")}, "less than or equal"),
        ({"most_calls_in_flight": 0}, "greater than or equal"),
        ({"most_members": 0}, "greater than or equal"),
        ({"max_connections": 0}, "greater than or equal"),
        ({"mask": [""]}, "not a valid name"),
        ({"mask": ["a\n"]}, "not a valid name"),
        ({"token": "plo_"}, "not permitted"),
        ({"broker": "localhost"}, "is not a broker address"),
        ({"broker": "redis://host:0"}, "invalid port"),
        ({"broker_password_file": "x"}, "only with a Redis"),
        ({"broker": "tcp/host:7447", "broker_password_file": "x"}, "only with a Redis"),
        ({"rules": [{}]}, "Field required"),
        ({"rules": [{"approval": "yes"}]}, "'auto', 'ask' or 'deny'"),
        ({"rules": [{"approval": "ask", "deadline_secs": 0.9}]}, "greater than or equal to 1"),
        ({"rules": [{"approval": "ask", "deadline_secs": 3600.1}]}, "less than or equal to 3600"),
        ({"rules": [{"approval": "ask", "deadline_secs": float("nan")}]}, "less than or equal"),
        ({"rules": [{"approval": "ask", "office": ""}]}, "is not a valid pattern"),
        ({"rules": [{"approval": "ask", "tool": "x" * 256}]}, "is not a valid pattern"),
        ({"rules": [{"approval": "ask", "tool": " rm"}]}, "is not a valid pattern"),
        ({"rules": [{"approval": "ask", "approvers": ["*"]}]}, "neither a user id nor a server"),
        ({"rules": [{"approval": "ask", "approvers": ["@alice"]}]}, "neither a user id nor a server"),
        ({"rules": [{"approval": "ask", "what": 1}]}, "not permitted"),
    ],
)
def test_invalid_values(wrong: dict[str, Any], part: str) -> None:
    """They are refused when the node starts."""
    with pytest.raises(ValidationError, match=part):
        Offices.model_validate(wrong)


@pytest.mark.parametrize("approval", ["auto", "deny"])
def test_approvers_need_ask(approval: str) -> None:
    """Otherwise the operator would believe that calls need their approval."""
    with pytest.raises(ValidationError, match="approvers have no effect"):
        OfficeRule.model_validate({"approval": approval, "approvers": ["there.test"]})


def test_a_rule_for_everything_must_be_the_last() -> None:
    """Rules after it would never apply."""
    auto, deny = {"approval": "auto"}, {"tool": "rm", "approval": "deny"}
    assert len(Offices.model_validate({"rules": [deny, auto]}).rules) == 2
    for everything in (auto, {"office": "**", "approval": "auto"}):
        with pytest.raises(ValidationError, match="hides the rules after it"):
            Offices.model_validate({"rules": [everything, deny]})


def test_a_mistake_is_reported_with_its_line() -> None:
    """The problem, and what to do."""
    text = '[offices]\npath = "socket.io"\n[[offices.rules]]\napproval = "ask"\ndeadline_secs = 0\n'
    path, deadline = _mistakes(text)
    assert (path.where, path.problem) == ("offices.path (line 2)", "does not begin with a slash")
    assert path.advice == "Write it like /socket.io."
    assert deadline.where == "offices.rules.0.deadline_secs (line 5)"
    assert deadline.problem == "input should be greater than or equal to 1"


def test_environment_variables() -> None:
    """As for all settings."""
    config = read_config("", {"PALAVER_OFFICES__ENABLED": "true", "PALAVER_OFFICES__VERSIONS": '["0.4"]'})
    assert isinstance(config, Config)
    assert (config.offices.enabled, config.offices.versions) == (True, ["0.4"])


def _mistakes(text: str) -> list[Mistake]:
    found = read_config(text, {})
    assert isinstance(found, list)
    return found


def test_a_password_in_the_broker_address_is_not_repeated() -> None:
    """The error names the setting for it."""
    [mistake] = _mistakes('[offices]\nbroker = "redis://:hunter2@redis.here.test:6379/0"\n')
    assert mistake.where == "offices.broker (line 2)"
    assert "broker_password_file" in f"{mistake.problem} {mistake.advice}"
    assert "hunter2" not in f"{mistake.problem} {mistake.advice}"


def test_a_zenoh_router_as_broker() -> None:
    settings = office_settings(Offices(broker="tcp/127.0.0.1:7447"))
    assert settings.broker == BrokerAddress("zenoh", "tcp/127.0.0.1:7447")
