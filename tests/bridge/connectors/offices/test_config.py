"""The configuration of offices."""

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.config.config import Config
from bridge.config.errors import Mistake, read_config
from bridge.connectors.offices.cluster.links import BrokerAddress
from bridge.connectors.offices.config import OfficeRule, Offices, office_settings
from bridge.connectors.offices.protocol.versions import Line
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


def test_who_says_nothing_has_the_defaults_of_the_settings() -> None:
    """They are written in two places, and are the same. Nobody connects to a node that was not told so."""
    assert office_settings(Config().offices) == OfficeSettings()
    assert office_settings(Offices(rules=[OfficeRule(approval="auto")])).rules == (ApprovalRule(),)


def test_settings_are_made_of_it() -> None:
    """All of them; versions in their order, which is not that of their digits."""
    config = read_config(WRITTEN, {})
    assert isinstance(config, Config)
    assert office_settings(config.offices, "hunter2") == OfficeSettings(
        enabled=True,
        path="/offices/socket.io",
        profile="wire",
        versions=(Line(0, 2), Line(0, 4), Line(0, 10)),
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


def test_rooms_of_offices_may_stay_for_ever() -> None:
    assert office_settings(Offices(archive_after="never")).archive_after is None


@pytest.mark.parametrize("span", ["", "30", "0d", "-1d", "1.5h", "30 d", "Never", "a month"])
def test_what_is_no_span_of_time(span: str) -> None:
    """It says what one is."""
    with pytest.raises(ValidationError, match="write a number and its unit"):
        Offices(archive_after=span)


def test_the_letter_knows_one_version() -> None:
    """ "`spec`: one version, published rule", and who says none is refused."""
    settings = office_settings(Offices(profile="spec"))
    assert (settings.versions, settings.accept_unversioned) == ((Line(0, 4),), False)
    assert office_settings(Offices(profile="spec", versions=["1.0"])).versions == (Line(1, 0),)


@pytest.mark.parametrize("path", ["/socket.io", "/a", "/a/b-c_d~e.f", "/" + "x" * 254, "/socket.iox"])
def test_a_path(path: str) -> None:
    """With or without a slash at its end it is the same."""
    assert Offices(path=path).path == path == Offices(path=path + "/").path


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("", "does not begin with a slash"),
        ("socket.io", "does not begin with a slash"),
        ("http://here.test/socket.io", "does not begin with a slash"),
        (" /socket.io", "does not begin with a slash"),
        ("/../socket.io", "has "),
        ("/a..b", "has "),
        ("/", "is no path"),
        ("//", "is no path"),
        ("/a//b", "is no path"),
        ("/socket io", "is no path"),
        ("/socket.io\n", "is no path"),
        ("/socket\tio", "is no path"),
        ("/socket\u00a0io", "is no path"),
        ("/socket.io?a=b", "is no path"),
        ("/socket.io#a", "is no path"),
        ("/socket%2eio", "is no path"),
        ("/{name}", "is no path"),
        ("/\0", "is no path"),
        ("/" + "x" * 255, "is no path"),
        ("/_matrix", "answers other requests"),
        ("/_matrix/client", "answers other requests"),
        ("/_palaver/x/", "answers other requests"),
        ("/.well-known", "answers other requests"),
        ("/health/live", "answers other requests"),
    ],
)
def test_what_is_no_path(path: str, part: str) -> None:
    """Or is one on which something else answers."""
    with pytest.raises(ValidationError, match=part):
        Offices(path=path)


@pytest.mark.parametrize(
    "version",
    ["", "0", "0.4.0", "v0.4", "0.4 ", "0.4\n", "0.04", "00.4", "-1.0", "a.b", "0.٤", "0." + "1" * 30],
)
def test_what_is_no_version(version: str) -> None:
    """A patch is nobody's business, and each version is written in one way."""
    with pytest.raises(ValidationError, match="is no version"):
        Offices(versions=["0.4", version])


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"versions": []}, "at least 1"),
        ({"versions": ["0.4", "0.3", "0.4"]}, r"0\.4 is named more than once"),
        ({"versions": [0.4]}, "valid string"),
        ({"profile": "letter"}, "'wire' or 'spec'"),
        ({"relay_timeout_secs": 0}, "greater than 0"),
        ({"relay_timeout_secs": float("inf")}, "less than or equal"),
        ({"most_calls_in_flight": 0}, "greater than or equal"),
        ({"most_members": 0}, "greater than or equal"),
        ({"max_connections": 0}, "greater than or equal"),
        ({"mask": [""]}, "name of a key"),
        ({"mask": ["a\n"]}, "name of a key"),
        ({"token": "plo_"}, "not permitted"),
        ({"broker": "localhost"}, "is no broker"),
        ({"broker": "redis://host:0"}, "a port that there is not"),
        ({"broker_password_file": "x"}, "together with a Redis"),
        ({"broker": "tcp/host:7447", "broker_password_file": "x"}, "together with a Redis"),
        ({"rules": [{}]}, "Field required"),
        ({"rules": [{"approval": "yes"}]}, "'auto', 'ask' or 'deny'"),
        ({"rules": [{"approval": "ask", "deadline_secs": 0.9}]}, "greater than or equal to 1"),
        ({"rules": [{"approval": "ask", "deadline_secs": 3600.1}]}, "less than or equal to 3600"),
        ({"rules": [{"approval": "ask", "deadline_secs": float("nan")}]}, "less than or equal"),
        ({"rules": [{"approval": "ask", "office": ""}]}, "is no pattern"),
        ({"rules": [{"approval": "ask", "tool": "x" * 256}]}, "is no pattern"),
        ({"rules": [{"approval": "ask", "tool": " rm"}]}, "is no pattern"),
        ({"rules": [{"approval": "ask", "approvers": ["*"]}]}, "neither a user id nor a server"),
        ({"rules": [{"approval": "ask", "approvers": ["@alice"]}]}, "neither a user id nor a server"),
        ({"rules": [{"approval": "ask", "what": 1}]}, "not permitted"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], part: str) -> None:
    """When the node starts, with a sentence."""
    with pytest.raises(ValidationError, match=part):
        Offices.model_validate(wrong)


@pytest.mark.parametrize("approval", ["auto", "deny"])
def test_who_names_approvers_wants_them_asked(approval: str) -> None:
    """Otherwise a call would go through of which somebody thinks that it does not."""
    with pytest.raises(ValidationError, match="approvers are not asked"):
        OfficeRule.model_validate({"approval": approval, "approvers": ["there.test"]})


def test_no_rule_stands_behind_one_for_everything() -> None:
    """It would protect nobody."""
    free, deny = {"approval": "auto"}, {"tool": "rm", "approval": "deny"}
    assert len(Offices.model_validate({"rules": [deny, free]}).rules) == 2
    for everything in (free, {"office": "**", "approval": "auto"}):
        with pytest.raises(ValidationError, match="no other is looked at"):
            Offices.model_validate({"rules": [everything, deny]})


def test_a_mistake_is_told_with_its_line() -> None:
    """What is wrong, and what to do about it."""
    text = '[offices]\npath = "socket.io"\n[[offices.rules]]\napproval = "ask"\ndeadline_secs = 0\n'
    path, deadline = _mistakes(text)
    assert (path.where, path.problem) == ("offices.path (line 2)", "does not begin with a slash")
    assert path.advice == "Write it like /socket.io."
    assert deadline.where == "offices.rules.0.deadline_secs (line 5)"
    assert deadline.problem == "input should be greater than or equal to 1"


def test_the_environment_can_say_it_too() -> None:
    """As with all settings."""
    config = read_config("", {"PALAVER_OFFICES__ENABLED": "true", "PALAVER_OFFICES__VERSIONS": '["0.4"]'})
    assert isinstance(config, Config)
    assert (config.offices.enabled, config.offices.versions) == (True, ["0.4"])


def _mistakes(text: str) -> list[Mistake]:
    found = read_config(text, {})
    assert isinstance(found, list)
    return found


def test_a_password_in_a_broker_is_refused_and_not_told() -> None:
    """It has a file of its own."""
    [mistake] = _mistakes('[offices]\nbroker = "redis://:hunter2@redis.here.test:6379/0"\n')
    assert mistake.where == "offices.broker (line 2)"
    assert "broker_password_file" in f"{mistake.problem} {mistake.advice}"
    assert "hunter2" not in f"{mistake.problem} {mistake.advice}"


def test_a_node_of_several_processes_by_zenoh() -> None:
    settings = office_settings(Offices(broker="tcp/127.0.0.1:7447"))
    assert settings.broker == BrokerAddress("zenoh", "tcp/127.0.0.1:7447")
