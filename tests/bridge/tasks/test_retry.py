"""The retry policy."""

from bridge.tasks.retry import DEFAULT_RETRY_POLICY, RetryPolicy


def test_the_policy_of_the_specification() -> None:
    """`max_retries: 3, base_delay_ms: 100, max_delay_ms: 5000, backoff_multiplier: 2.0`."""
    assert RetryPolicy(3, 100, 5_000, 2.0) == DEFAULT_RETRY_POLICY
    assert [DEFAULT_RETRY_POLICY.delay_ms(failures) for failures in range(1, 6)] == [100, 200, 400, None, None]


def test_the_delay_is_capped() -> None:
    """100 ms × 2ⁿ, capped at 5 s, however many retries are configured."""
    policy = RetryPolicy(max_retries=10_000)
    assert [policy.delay_ms(failures) for failures in (5, 6, 7, 8, 9_999)] == [1_600, 3_200, 5_000, 5_000, 5_000]


def test_without_retries_the_first_failure_is_the_last() -> None:
    """`max_retries: 0`."""
    assert RetryPolicy(max_retries=0).delay_ms(1) is None
