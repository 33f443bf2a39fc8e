import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_runs_as_it_stands_there() -> None:
    """Whoever copies it begins with something that works."""
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "bench" / "README.md").read_text(), re.DOTALL)
    command = [sys.executable, "-c", example, "--quick"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    last = run.stdout.splitlines()[-1]
    assert re.fullmatch(r"sorting: ratio \d+\.\d\d \(forwards over backwards, sort 1,000; the worst of 1 row\)", last)
