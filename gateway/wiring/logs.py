"""Structured logs for operators: one JSON object a line. They are not the audit log."""

import logging
from typing import TextIO

import structlog

_QUIET = ("uvicorn.access", "aiohttp.access", "watchfiles.main")


def set_up_logs(stream: TextIO, level: int = logging.INFO) -> None:
    """Write every log line of this process to `stream`, as JSON.

    What is logged holds no credential: request headers and bodies are never logged.
    """
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
