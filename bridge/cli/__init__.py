"""The command `palaver`."""

from bridge.cli.main import main

__all__ = ["main"]
