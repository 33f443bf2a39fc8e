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


@pytest.mark.parametrize(
    "text",
    [
        'database.url = "postgresql://a:hunter2@h/x"',
        "[database]\nurl = postgresql://a:hunter2@h/x",
        '[database]\npasword = "hunter2"',
        "[database]\npassword_file = hunter2",
        'passwords = "hunter2',
        '[[agents]]\nid = "a"\ncommand = "work --token hunter2"',
        "[[agents]]\ncommand = work --token hunter2",
    ],
)
def test_a_mistake_does_not_repeat_a_secret(text: str) -> None:
    """A password in the wrong place must not reach a terminal or a log."""
    assert "hunter2" not in str([str(mistake) for mistake in _mistakes(text)])


@pytest.mark.parametrize(
    ("text", "problem", "advice", "marked"),
    [
        ("port = = 1", "not valid TOML: invalid value", "config.example.toml", "= 1"),
        ("server_name = kitchen.local", "text needs quotes", 'server_name = "kitchen.local"', "kitchen.local"),
        ("server_name = “a”", "curly quotes", '"…"', "“a”"),
        ('server_name = "a', "a quote is missing", "", ""),
        ('data_dir = "C:\\Users"', "backslash", "single quotes", ""),
        ('server_name = "a"\nserver_name = "b"', "server_name is given twice", "Keep one", ""),
        ("[listener]\n[listener]", "[listener] is there twice", "below one [listener]", "]"),
        ('[agents]\nid = "a"\n[agents]', "several blocks agents", "Write [[agents]]", "]"),
        ('[agents]\nid = "a"', "several of these blocks", "Write [[agents]]", "[agents]"),
        ("[[listener]]\nport = 1", "only one such section", "Write [listener]", "[[listener]]"),
        ("[[agents]]\ncommand = wc -w", "a list", 'command = ["wc", "-w"]', "wc -w"),
        ('[[agents]]\nid = "a"\ncommand = "wc -w"', "a list", 'command = ["wc", "-w"]', "command"),
        ('[[agents]]\nid = "a"\nruntime = "cluade"', "no command", "Did you mean the runtime claude?", None),
        ("[listener]\n  prot = 1", "no such setting", "Did you mean port?", "prot"),
    ],
)
def test_a_common_mistake_has_a_suggestion(text: str, problem: str, advice: str, marked: str | None) -> None:
    """And its line, with a caret below what is wrong."""
    [mistake] = _mistakes(text)
    assert problem in mistake.problem
    assert advice in mistake.advice
    if marked is None:
        assert mistake.excerpt == ""
        return
    line, caret = mistake.excerpt.split("\n")
    assert line[caret.index("^") :].startswith(marked)
    assert str(mistake).endswith(mistake.excerpt)


def test_the_end_of_a_file_can_be_the_mistake() -> None:
    """There is no line to show."""
    [mistake] = _mistakes("hosts = [1,\n2")
    assert (mistake.where, mistake.excerpt) == ("the end of the file", "")


def test_a_long_line_is_cut() -> None:
    """The caret stays in the terminal."""
    [mistake] = _mistakes(f'server_name = "{"x" * 500}')
    assert max(map(len, mistake.excerpt.split("\n"))) < 80


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
