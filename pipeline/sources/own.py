"""The sources of receipts that Tocsin writes itself."""

from pipeline.sources.expired import EXPIRED
from pipeline.sources.heartbeat import MISSING_PING

# No URL leads to them, so that no sender can speak as Tocsin.
OWN_SOURCES = (EXPIRED, MISSING_PING)
