"""The node's metrics."""

from prometheus_client import generate_latest

from bridge.observability.metrics import Metrics


def test_separate_registries() -> None:
    """No metric is in a global registry."""
    one, two = Metrics(), Metrics()
    one.database_restarts.inc()
    assert b"palaver_database_restarts_total 1.0" in generate_latest(one.registry)
    assert b"palaver_database_restarts_total 0.0" in generate_latest(two.registry)


def test_process_metrics() -> None:
    """Memory, CPU time and open files."""
    text = generate_latest(Metrics().registry).decode()
    assert "process_resident_memory_bytes" in text
    assert "process_open_fds" in text


def test_the_names_follow_the_conventions_of_prometheus() -> None:
    """What describes the node ends in `_info`, and no series has the time at which another one began."""
    metrics = Metrics()
    metrics.information.labels("1.0", "here.test").set(1)
    text = generate_latest(metrics.registry).decode()
    assert 'palaver_info{server_name="here.test",version="1.0"} 1.0' in text
    assert "_created" not in text


def test_pool_is_read_per_scrape() -> None:
    """With current values."""
    metrics, now = Metrics(), [(3, 2, 10)]
    metrics.watch_pool(lambda: now[0])
    assert b'palaver_database_pool_connections{state="idle"} 2.0' in generate_latest(metrics.registry)
    now[0] = (10, 0, 10)
    text = generate_latest(metrics.registry)
    assert b'palaver_database_pool_connections{state="busy"} 10.0' in text
    assert b'palaver_database_pool_connections{state="limit"} 10.0' in text
