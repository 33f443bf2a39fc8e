"""The log: text on a terminal, JSON elsewhere, no secrets in either."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from bridge.config.config import Log
from bridge.observability.log import configure_logging


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_without_a_terminal() -> None:
    """For this application's and libraries' lines."""
    stream = io.StringIO()
    configure_logging(Log(), stream)
    structlog.get_logger("palaver").info("Started.", port=7676)
    logging.getLogger("library").warning("slow: %s", "very")
    ours, theirs = map(json.loads, stream.getvalue().splitlines())
    assert (ours["event"], ours["port"], ours["level"], ours["logger"]) == ("Started.", 7676, "info", "palaver")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("slow: very", "warning", "library")
    assert ours["timestamp"].endswith("Z")


def test_text_on_a_terminal() -> None:
    """No JSON."""
    stream = _Terminal()
    configure_logging(Log(), stream)
    structlog.get_logger("palaver").info("Started.", port=7676)
    assert "Started." in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize("format_", ["text", "json"])
def test_secrets_are_redacted(format_: str) -> None:
    """As a value, inside a text, in a library's line, in an exception."""
    stream = io.StringIO()
    configure_logging(Log.model_validate({"format": format_}), stream)
    log = structlog.get_logger("palaver")
    log.info("connecting to postgresql://a:hunter2x@h/d", password="hunter2x")
    logging.getLogger("library").warning("sent Authorization: Bearer %s", "hunter2xhunter2x")
    try:
        raise ValueError("bad url postgresql://a:hunter2x@h/d")
    except ValueError:
        log.exception("It failed.")
    assert "hunter2x" not in stream.getvalue()
    assert "It failed." in stream.getvalue()
    assert "ValueError" in stream.getvalue()


def test_level() -> None:
    """Lower levels are not written."""
    stream = io.StringIO()
    configure_logging(Log(level="error"), stream)
    structlog.get_logger("palaver").warning("unimportant")
    logging.getLogger("library").warning("unimportant")
    assert stream.getvalue() == ""


def test_current_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spinner may replace it temporarily."""
    configure_logging(Log(format="json"))
    spinner = io.StringIO()
    monkeypatch.setattr("sys.stderr", spinner)
    structlog.get_logger("palaver").info("Started.")
    assert "Started." in spinner.getvalue()
