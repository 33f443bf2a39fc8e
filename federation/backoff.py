"""How long a server that does not answer is left alone: a kinder schedule than the usual ten minutes."""

from typing import Final

FIRST_MS: Final = 5_000
LONGEST_MS: Final = 3_600_000


def delay_ms(failures: int, jitter: float) -> int:
    """After so many failures in a row: 5 seconds, doubled each time, up to an hour.

    `jitter`, a random number between 0 and 1, moves it by up to a quarter either way: all servers that a
    restart has cut off would come back at the same moment otherwise.
    """
    assert failures > 0, "nothing has failed"
    assert 0 <= jitter <= 1, "jitter is a share"
    doubled = FIRST_MS * 2 ** min(failures - 1, 20)
    return min(int(min(doubled, LONGEST_MS) * (0.75 + jitter / 2)), LONGEST_MS)
