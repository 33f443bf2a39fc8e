"""What Synapse's own Python runs: Synapse, killed by the kernel when the process that started it ends.

A test run that is killed ends none of its processes itself.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    started_by = int(os.environ["STARTED_BY"])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != started_by:
            sys.exit("the test that started this Synapse has ended")

    # This file runs where Synapse is installed, and is only read where it is not.
    from synapse.app.homeserver import main as synapse  # type: ignore[import-not-found, unused-ignore]

    synapse()


if __name__ == "__main__":
    main()
