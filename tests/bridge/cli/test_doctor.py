"""`palaver doctor`, what a person reads."""

from collections.abc import Callable
from pathlib import Path

from tests.bridge.cli.conftest import Palaver


def test_the_report_ends_with_the_outcome(
    palaver: Palaver, unused_tcp_port_factory: Callable[[], int]
) -> None:
    """A line for each examination, the verdict last."""
    port, metrics = unused_tcp_port_factory(), unused_tcp_port_factory()
    Path("palaver.toml").write_text(f"[listener]\nport = {port}\n[metrics]\nport = {metrics}\n")
    said = palaver("doctor")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "This node is healthy."
    assert "✓ names" in said.out
    assert "! node" in said.out
    assert "→ `palaver run` starts one." in said.out


def test_a_fault_comes_with_its_advice(palaver: Palaver) -> None:
    """And the exit code says that there is one."""
    Path("palaver.toml").write_text("[listener]\nprot = 1\n")
    said = palaver("doctor")
    assert said.code == 1
    assert "✗ configuration" in said.out
    assert "Did you mean port?" in said.out
    assert said.out.splitlines()[-1] == "One fault: configuration."
