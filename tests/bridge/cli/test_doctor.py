"""The output of `palaver doctor`."""

from collections.abc import Callable
from pathlib import Path

from tests.bridge.cli.conftest import Palaver


def test_the_report_ends_with_a_summary(palaver: Palaver, unused_tcp_port_factory: Callable[[], int]) -> None:
    """Each check has a line."""
    port, metrics = unused_tcp_port_factory(), unused_tcp_port_factory()
    Path("palaver.toml").write_text(f"[listener]\nport = {port}\n[metrics]\nport = {metrics}\n")
    result = palaver("doctor")
    assert result.code == 0
    assert result.out.splitlines()[-1] == "This node is healthy."
    assert "✓ names" in result.out
    assert "! node" in result.out
    assert "→ Start one with `palaver run`." in result.out


def test_a_fault_is_shown_with_advice(palaver: Palaver) -> None:
    """The exit code is 1."""
    Path("palaver.toml").write_text("[listener]\nprot = 1\n")
    result = palaver("doctor")
    assert result.code == 1
    assert "✗ configuration" in result.out
    assert "Did you mean port?" in result.out
    assert result.out.splitlines()[-1] == "One fault: configuration."
