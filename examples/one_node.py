"""Start one node in a temporary directory, try its commands as a new user would, and stop it."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

PALAVER = os.environ.get("PALAVER", "palaver")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def command(environment: dict[str, str], directory: Path, *words: str) -> None:
    print(f"$ palaver {shlex.join(words)}", flush=True)
    subprocess.run([PALAVER, *words], cwd=directory, env=environment, check=True)


def fetch(url: str) -> None:
    print(f"$ curl {url}")
    with urllib.request.urlopen(url, timeout=10) as answer:
        print(json.dumps(json.load(answer), indent=2), flush=True)


def tour(directory: Path, port: int, environment: dict[str, str]) -> None:
    title("What other servers request first: the node's keys, signed with themselves")
    fetch(f"http://localhost:{port}/_matrix/key/v2/server")
    title("The health of the node")
    fetch(f"http://localhost:{port}/health/ready")
    command(environment, directory, "doctor")
    title("A new signing key; signatures of the old one stay valid")
    command(environment, directory, "keys", "rotate")
    title("A dump of the database while the node runs, and a query")
    command(environment, directory, "db", "dump", "saved.dump")
    command(environment, directory, "db", "shell", "--", "-c", "TABLE node")
    title("The status of the node")
    command(environment, directory, "status")


def main() -> int:
    port, metrics = free_port(), free_port()
    environment = {
        **os.environ,
        "PALAVER_SERVER_NAME": f"localhost:{port}",
        "PALAVER_LISTENER__PORT": str(port),
        "PALAVER_METRICS__PORT": str(metrics),
        "PALAVER_LOG__LEVEL": "warning",
    }
    with tempfile.TemporaryDirectory(prefix="palaver-demo-") as name:
        directory = Path(name)
        title("A node, from nothing")
        print("$ palaver run", flush=True)
        node = subprocess.Popen(
            [PALAVER, "run", "--json"], cwd=directory, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            assert node.stdout is not None
            started = json.loads(node.stdout.readline() or '{"error": "it ended without output"}')
            if "error" in started:
                print(started["error"], file=sys.stderr)
                return 1
            print(json.dumps(started, indent=2), flush=True)
            tour(directory, port, environment)
        finally:
            node.send_signal(signal.SIGTERM)
            code = node.wait(timeout=60)
    title(f"The node stopped with exit code {code}. `make run` starts a node that keeps running.")
    return code


if __name__ == "__main__":
    sys.exit(main())
