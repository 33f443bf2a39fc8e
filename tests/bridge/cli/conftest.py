"""The command line, called in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import main


@dataclass
class Said:
    """What a command wrote, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Palaver = Callable[..., Said]


@pytest.fixture
def palaver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Palaver:
    """Runs `palaver WORDS…` in an empty directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str) -> Said:
        monkeypatch.setattr("sys.argv", ["palaver", *words])
        code: Any = 0
        try:
            main()
        except SystemExit as leave:
            code = leave.code
        out, err = capfd.readouterr()
        return Said(code or 0, out, err)

    return call
