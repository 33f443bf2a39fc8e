"""A client of the API for attached agents, and an agent that repeats its prompt.

    palaver agents token create echo --file token
    python examples/agent_client.py --id echo --token-file token

It needs only Python. The API is described in docs/agents-openapi.yaml; `AgentClient` uses the part without
WebSocket.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAIT = 30.0
"""Seconds for which a request for a task waits. Each request is also a heartbeat."""
NOT_ATTACHED = "PALAVER_NOT_ATTACHED"


@dataclass(frozen=True)
class Task:
    work_id: str
    attempt: int
    task_id: str
    from_agent: str
    prompt: str
    context: str
    system_prompt: str | None
    model: str | None
    metadata: dict[str, Any]
    seconds_left: float

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Task:
        return cls(**{name: value[name] for name in cls.__dataclass_fields__})


class RequestRefused(Exception):
    """The node refused a request. `errcode` is for programs, the message for people."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.errcode = str(body.get("errcode"))
        self.retry_after = float(body.get("retry_after_ms") or 1000) / 1000
        super().__init__(f"{status} {self.errcode}: {body.get('error')}")

    @property
    def is_temporary(self) -> bool:
        """Whether the request may succeed if it is repeated."""
        return self.status in {408, 429} or self.status >= 500


class AgentClient:
    """All requests are idempotent, so that a request without an answer is simply repeated."""

    def __init__(self, url: str, agent_id: str, token: str, tls: ssl.SSLContext | None = None) -> None:
        self._base = f"{url.rstrip('/')}/_palaver/v1/agents/{urllib.parse.quote(agent_id, safe='')}"
        self._token = token
        self._tls = tls
        self._registration: dict[str, Any] = {}
        self._begun: dict[str, int] = {}
        self.session = secrets.token_hex(12)

    def register(self, *, runtime: str = "example", capabilities: list[str] | None = None) -> dict[str, Any]:
        self._registration = {"runtime": runtime, "capabilities": capabilities or ["messaging"]}
        return self._attach()

    def _attach(self) -> dict[str, Any]:
        """Register. After a disconnection this continues the tasks that were begun."""
        working = [{"work_id": work_id, "attempt": attempt} for work_id, attempt in self._begun.items()]
        return self._request("PUT", "", {"session": self.session, **self._registration, "working": working})

    def take(self, wait: float = WAIT) -> Task | None:
        """The next task; None on timeout."""
        body = {"session": self.session, "wait_seconds": wait}
        task = self._request("POST", "/tasks/take", body, timeout=wait + 30)["task"]
        return None if task is None else Task.from_json(task)

    def begin(self, task: Task) -> bool:
        """Begin a task. Work on it only if this returns True."""
        self._begun[task.work_id] = task.attempt
        return self._call(task, "begin") or self._forget(task)

    def progress(self, task: Task, text: str) -> bool:
        return self._call(task, "progress", text=text)

    def finish(self, task: Task, output: str, *, success: bool = True, exit_code: int = 0) -> bool:
        counts = self._call(task, "result", output=output, success=success, exit_code=exit_code)
        self._forget(task)
        return counts

    def _forget(self, task: Task) -> bool:
        """Forget a task that has ended or is not wanted."""
        self._begun.pop(task.work_id, None)
        return False

    def unregister(self) -> None:
        self._request("DELETE", f"?{urllib.parse.urlencode({'session': self.session})}", None)

    def _call(self, task: Task, operation: str, **values: object) -> bool:
        body = {"session": self.session, "attempt": task.attempt, **values}
        is_attached = True
        while True:
            try:
                if not is_attached:
                    # The node has restarted.
                    self._attach()
                    is_attached = True
                return bool(self._request("POST", f"/tasks/{task.work_id}/{operation}", body)["wanted"])
            except RequestRefused as refused:
                if not refused.is_temporary and refused.errcode != NOT_ATTACHED:
                    raise
                is_attached = is_attached and refused.errcode != NOT_ATTACHED
                time.sleep(refused.retry_after)
            except OSError:
                time.sleep(1.0)

    def _request(self, method: str, path: str, body: object, *, timeout: float = 30.0) -> dict[str, Any]:
        """Raises `RequestRefused`, or `OSError` if the node cannot be reached."""
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=self._tls) as response:
                result: dict[str, Any] = json.load(response)
                return result
        except urllib.error.HTTPError as error:
            with error:
                raise RequestRefused(error.code, json.load(error)) from None


def work(client: AgentClient, do: Callable[[AgentClient, Task], str]) -> None:
    """Run until the program is stopped, also across restarts of the node."""
    is_registered = False
    while True:
        try:
            if not is_registered:
                print(f"Attached as {client.register()['address']}.", flush=True)
                is_registered = True
            task = client.take()
            if task is not None and client.begin(task):
                client.finish(task, do(client, task))
        except RequestRefused as refused:
            if refused.errcode == NOT_ATTACHED:
                is_registered = False
            elif refused.is_temporary:
                time.sleep(refused.retry_after)
            else:
                raise
        except OSError as error:
            print(f"The node cannot be reached: {error}", file=sys.stderr, flush=True)
            is_registered = False
            time.sleep(1.0)


def echo(client: AgentClient, task: Task) -> str:
    client.progress(task, f"reading the task of {task.from_agent}")
    return task.prompt


def main() -> int:
    parser = argparse.ArgumentParser(description="An agent that repeats its prompt.")
    parser.add_argument("--url", default="http://localhost:7676", help="the URL of the node")
    parser.add_argument("--id", default="echo", help="the agent's id, without its node")
    parser.add_argument("--token-file", type=Path, required=True, help="the file with its token")
    parser.add_argument("--authority", help="a certificate authority to trust, such as the node's tls/ca.pem")
    options = parser.parse_args()
    tls = ssl.create_default_context(cafile=options.authority) if options.authority else None
    client = AgentClient(options.url, options.id, options.token_file.read_text().strip(), tls)
    # SIGTERM ends the program like Ctrl-C, so that the agent unregisters.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        work(client, echo)
    except KeyboardInterrupt:
        return 130
    except RequestRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    finally:
        try:
            client.unregister()
        except (RequestRefused, OSError) as error:
            print(f"The agent could not be unregistered: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
