"""All mistakes in a configuration are reported at once, each with advice."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.config.config import Config
from bridge.config.errors import Mistake, line_of, read_config


def _mistakes(text: str, environ: dict[str, str] | None = None) -> list[Mistake]:
    outcome = read_config(textwrap.dedent(text), environ or {})
    assert isinstance(outcome, list)
    return outcome


def test_all_mistakes_are_reported_with_location_and_advice() -> None:
    """An operator need not correct one mistake to see the next."""
    mistakes = _mistakes(
        """\
        server_nam = "x"
        [listener]
        port = 99999
        plain_http_from = ["loopback"]
        [database]
        url = "postgresql://a:b@h/x"
        [[peers]]
        server_name = "kitchen.local"
        [[peers]]
        plain = true
        """
    )
    by_location = {mistake.where: mistake for mistake in mistakes}
    assert set(by_location) == {
        "server_nam (line 1)",
        "listener.port (line 3)",
        "listener.plain_http_from.0 (line 4)",
        "database.url (line 6)",
        "peers.1.server_name",
    }
    assert by_location["server_nam (line 1)"].advice == "Did you mean server_name?"
    assert "port = 7676" in by_location["listener.port (line 3)"].advice
    assert "127.0.0.0/8" in by_location["listener.plain_http_from.0 (line 4)"].advice or "192.168" in str(by_location)
    assert "password_file" in by_location["database.url (line 6)"].advice
    assert all(mistake.problem and mistake.advice for mistake in mistakes)


def test_a_mistake_does_not_repeat_a_secret() -> None:
    """A password in the wrong place must not reach a terminal or a log."""
    mistakes = _mistakes('database.url = "postgresql://a:hunter2@h/x"')
    assert "hunter2" not in str([str(mistake) for mistake in mistakes])


def test_invalid_toml_is_reported_with_its_line() -> None:
    """The message of `tomllib` has the line."""
    [mistake] = _mistakes('server_name = "a"\nport = = 1\n')
    assert "line 2" in mistake.problem


def test_the_environment_overrides_the_file() -> None:
    """A double underscore separates section and setting. Lists are written as in the file."""
    environ = {
        "PALAVER_SERVER_NAME": "kitchen.local",
        "PALAVER_LISTENER__PORT": "7001",
        "PALAVER_METRICS__ENABLED": "false",
        "PALAVER_LISTENER__HOSTS": '["127.0.0.1"]',
        "PALAVER_CONFIG": "elsewhere.toml",
        "HOME": "/nowhere",
    }
    config = read_config('server_name = "a"\n[listener]\nport = 7000\nidle_timeout = 5', environ)
    assert isinstance(config, Config)
    assert (config.server_name, config.listener.port, config.listener.idle_timeout) == ("kitchen.local", 7001, 5)
    assert config.metrics.enabled is False
    assert config.listener.hosts == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("PALAVER_LISTNER__PORT", "1", "Did you mean listener?"),
        ("PALAVER_LISTENER__PORT", "many", "port = 7676"),
        ("PALAVER_LISTENER__HOSTS", "[127", "Write lists like"),
        ("PALAVER_SERVER_NAME__X", "1", ""),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(name: str, value: str, advice: str) -> None:
    """The location of the mistake is the variable's name."""
    text = 'server_name = "a"' if name.endswith("__X") else ""
    [mistake] = _mistakes(text, {name: value})
    assert mistake.where == name
    assert advice in mistake.advice


@given(
    st.text(max_size=200),
    st.dictionaries(st.from_regex(r"PALAVER_[A-Z_]{1,20}", fullmatch=True), st.text(max_size=20), max_size=3),
)
def test_any_input_returns_a_configuration_or_mistakes(text: str, environ: dict[str, str]) -> None:
    """No text and no environment raises an exception."""
    assert isinstance(read_config(text, environ), Config | list)


def test_the_line_of_a_setting_is_found() -> None:
    """In sections, in the second of two blocks, under a dotted header."""
    text = "a = 1\n[one]\nb = 2\n[[peers]]\nname = 1\n[[peers]]\nname = 2\n"
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("one", "b")) == 3
    assert line_of(text, ("peers", 1, "name")) == 7
    assert line_of(text, ("peers", 0, "name")) == 5
    assert line_of(text, ("one",)) == 2
    assert line_of(text, ("nowhere",)) is None
