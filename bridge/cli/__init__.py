"""The command `palaver`."""

from bridge.cli.palaver import main

__all__ = ["main"]
