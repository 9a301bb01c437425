"""Write one line per log event without secrets: as text to a terminal, else as JSON."""

import errno
import logging
import re
import sys
import threading
import traceback
from types import TracebackType

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

HIDDEN = "[hidden]"

# Fields that hold a secret or an address of a person. Their values are always hidden.
SECRET_FIELDS = re.compile(
    r"token|password|secret|authorization|integration_key|api_key|cookie|e?mail|phone|recipient|contact_value"
)

# Some senders leave out the hyphens of a key.
_UUID = r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"

# Secrets in texts: the pattern and its replacement.
SECRET_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"://[^/\s@]*@"), f"://{HIDDEN}@"),
    (re.compile(rf"(?i)(/(?:events|integrations?)(?:/[\w.-]+){{0,3}}?/){_UUID}"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)(key\W{{1,4}}){_UUID}"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|token)\s+[\w\-.~+/=]{16,}"), rf"\1 {HIDDEN}"),
    # Our tokens are 43 characters of URL-safe base64 (models/store/ids.py); signed links are longer.
    (re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])"), HIDDEN),
    (re.compile(r"(?<=/)[\w.=~-]{48,}"), HIDDEN),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*"), HIDDEN),
    (re.compile(r"(?<!\w)\+\d{7,15}(?!\w)"), HIDDEN),
)

# Libraries that log more than an operator needs.
QUIET_LOGGERS = ("dramatiq", "rq", "rq_scheduler", "redis", "urllib3", "_granian", "peewee")


def configure(level: str, process: str) -> None:
    """Send all logs of this process to standard error. Each line has `process` as a field."""
    renderer: Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )

    def name_process(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_process,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.ExceptionRenderer(format_error),
                redact,
                renderer,
            ],
        )
    )
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.root.level))
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )


def format_error(exc_info: ExcInfo) -> str:
    """Return the classes and stacks of an error and of the errors that caused it, without their texts.

    The texts quote data of users: a database names the value that violates a constraint.
    """
    texts: list[str] = []
    trace_info = traceback.TracebackException(*exc_info, compact=True)
    error: traceback.TracebackException | None = trace_info
    exception: BaseException | None = exc_info[1]
    while error is not None and exception is not None:
        texts.append(
            f"{type(exception).__name__}{_format_errno(exception)}\n{''.join(error.stack.format())}".rstrip()
        )
        cause = error.__cause__ is not None
        error = error.__cause__ if cause else None if error.__suppress_context__ else error.__context__
        exception = exception.__cause__ if cause else exception.__context__
    return "\nafter ".join(texts)


def _format_errno(error: BaseException) -> str:
    """Return the name of the errno, which contains no data of users."""
    number = getattr(error, "errno", None)
    return f" ({errno.errorcode[number]})" if isinstance(number, int) and number in errno.errorcode else ""


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Hide secrets by the name of their field, and by their pattern in every text."""
    for field, value in event.items():
        event[field] = HIDDEN if SECRET_FIELDS.search(field.lower()) else hide_secrets(value)
    return event


def hide_secrets(value: object) -> object:
    """Return the value with everything hidden that looks like a token, a key or an address of a person."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return redact(None, "", dict(value))
    if isinstance(value, list | tuple | set | frozenset):
        return [hide_secrets(item) for item in value]
    text = str(value)
    for pattern, replacement in SECRET_TEXTS:
        text = pattern.sub(replacement, text)
    return text


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    structlog.get_logger().critical("uncaught error", exc_info=(kind, error, trace))
