"""A command that can be an agent: it reads its task, reports progress, and answers.

    echo "Count these words" | python examples/demo_worker.py

The prompt is on standard input; the other values of the task are in variables PALAVER_TASK_…. Each line on
standard error is a progress message. Standard output is the answer. An argument sets the seconds per step.
"""

import os
import sys
import time

STEPS = ("counting the words", "looking for the longest one", "writing the answer")


def main() -> int:
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 1.2
    words = sys.stdin.read().split()
    if not words:
        print("The task contains no words.", file=sys.stderr)
        return 1
    requester = os.environ.get("PALAVER_TASK_FROM", "the requester")
    for step in (f"reading the task of {requester}", *STEPS):
        print(step, file=sys.stderr, flush=True)
        time.sleep(pause)
    longest = max((word.strip(".,:;!?") for word in words), key=len)
    print(f"{len(words)} words. The longest one is “{longest}”.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
