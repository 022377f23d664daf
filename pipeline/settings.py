"""What one run of the pipeline is told; plain values, so that workers can be handed them."""

from dataclasses import dataclass
from typing import Final

from agent import loads
from cost.rates import Memory

BUCKETS: Final = 16
"""Groups that share the state. Fewer, larger groups cost Spark far less than one per partition."""

RECORDS_PER_BATCH_MAX: Final = 1_000
"""Metrics records in one micro-batch: bounds memory while catching up; 2M samples at the most."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where samples come from, where loads go, and how they are estimated."""

    bootstrap_servers: str
    lake: str
    window_s: float = 60.0
    slide_s: float = 10.0
    buckets: int = BUCKETS

    @property
    def memory(self) -> Memory:
        """The estimator's memory."""
        return loads.memory(self.window_s)

    @property
    def slide_ms(self) -> int:
        """Length of a tick, milliseconds."""
        return round(self.slide_s * 1000)
