"""Logging: one pipeline for our own lines and those of the libraries, to standard error."""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

from bridge.config.config import Log
from bridge.text.redaction import redact


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at the moment: a spinner on the terminal puts itself in between, so
    that lines come out above it."""

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
        # Before the redaction: an exception's text may hold what its message was given.
        structlog.processors.format_exc_info,
        redact,
    ]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
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
    # Every request is counted in the metrics; a line for each would drown everything else.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
