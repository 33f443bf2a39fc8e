from itertools import count

from bench._federation.runs import Runs


async def test_rows_are_read_off_the_same_runs() -> None:
    """The n-th sample of each off the n-th run, whichever row is measured first."""
    numbers = count()

    async def make() -> int:
        return next(numbers)

    runs: Runs[int] = Runs()
    assert [await runs.next("rate", make) for _ in range(3)] == [0, 1, 2]
    assert [await runs.next("cpu", make) for _ in range(4)] == [0, 1, 2, 3]
    assert await runs.next("rate", make) == 3


async def test_one_run_may_be_enough() -> None:
    """However often it is asked for."""
    numbers = count()

    async def make() -> int:
        return next(numbers)

    runs: Runs[int] = Runs()
    assert [await runs.only(make) for _ in range(3)] == [0, 0, 0]
