"""The retry policy for the delivery of a task.

Agent federation 1.0.0, "Retry policy". The field names are the specification's.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_retries: int = 3
    base_delay_ms: int = 100
    max_delay_ms: int = 5_000
    backoff_multiplier: float = 2.0

    def delay_ms(self, failures: int) -> int | None:
        """The delay after this many failures; None after the last retry."""
        assert failures > 0, "nothing has failed"
        if failures > self.max_retries:
            return None
        try:
            delay = self.base_delay_ms * self.backoff_multiplier ** (failures - 1)
        except OverflowError:  # possible if many retries are configured
            return self.max_delay_ms
        return int(min(delay, self.max_delay_ms))


DEFAULT_RETRY_POLICY: Final = RetryPolicy()
