"""A command that can be an agent: it reads its task, says what it is at, and answers.

    echo "Count these words" | python examples/demo_worker.py

The task is on standard input, everything else in variables PALAVER_TASK_…; each line on standard error is
progress, and standard output is the answer. An argument says how many seconds each step takes.
"""

import os
import sys
import time

STEPS = ("counting the words", "looking for the longest one", "writing it down")


def main() -> int:
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 1.2
    words = sys.stdin.read().split()
    if not words:
        print("There are no words in the task.", file=sys.stderr)
        return 1
    whose = os.environ.get("PALAVER_TASK_FROM", "somebody")
    for step in (f"reading what {whose} wants", *STEPS):
        print(step, file=sys.stderr, flush=True)
        time.sleep(pause)
    longest = max((word.strip(".,:;!?") for word in words), key=len)
    print(f"{len(words)} words. The longest one is “{longest}”.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
