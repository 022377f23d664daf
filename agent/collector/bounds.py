"""How long the collector waits for whom, and under which name it asks."""

from typing import Final

CLIENT_ID: Final = "plimsoll-collector"
"""Shown in brokers' request logs and quotas."""

REQUEST_TIMEOUT_S: Final = 5.0
"""Longest wait for one broker: half of the usual interval, so that a dead one costs no sample."""
