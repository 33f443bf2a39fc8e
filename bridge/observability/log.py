"""Logging: one pipeline to standard error, for this application and its libraries."""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

from bridge.config.config import Log
from bridge.text.redaction import redact


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to the current standard error: a terminal spinner replaces it, so that lines appear above the
    spinner."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override] # the attribute of the base class is looked up each time
        return sys.stderr


def configure_logging(settings: Log, stream: TextIO | None = None) -> None:
    handler = StandardErrorHandler() if stream is None else logging.StreamHandler(stream)
    stream = sys.stderr if stream is None else stream
    text = settings.format == "text" or (settings.format == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if text else "iso", utc=not text),
        structlog.processors.StackInfoRenderer(),
        # Before the redaction, because an exception's text may contain its message's arguments.
        structlog.processors.format_exc_info,
        redact,
    ]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if text
        else structlog.processors.JSONRenderer()
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    # Metrics count every request; a log line for each would hide everything else.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
