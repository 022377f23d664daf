"""One JSON object a line, on standard error: standard output belongs to answers."""

import sys

import structlog


def log_to_stderr() -> None:
    """Set structlog up for a long-running command."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
