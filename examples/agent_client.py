"""A client of the interface for agents that attach themselves, and an agent that says what it hears.

    palaver agents token create echo --file token
    python examples/agent_client.py --id echo --token-file token

It needs nothing but Python. The interface is described in docs/agents-openapi.yaml; `AgentClient` uses the
part of it that works without a WebSocket.
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
"""Seconds that the node keeps a question for a task, which is also how often it hears that we live."""
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
    def read(cls, said: dict[str, Any]) -> Task:
        return cls(**{name: said[name] for name in cls.__dataclass_fields__})


class Refused(Exception):
    """`errcode` is for programs, `error` for people."""

    def __init__(self, status: int, said: dict[str, Any]) -> None:
        self.status = status
        self.errcode = str(said.get("errcode"))
        self.retry_after = float(said.get("retry_after_ms") or 1000) / 1000
        super().__init__(f"{status} {self.errcode}: {said.get('error')}")

    @property
    def is_passing(self) -> bool:
        """Whether the same is worth saying again."""
        return self.status in {408, 429} or self.status >= 500


class AgentClient:
    """Everything may be said twice and counts once, so what gets no answer is simply said again."""

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
        """Also after a break: what was begun before it goes on."""
        working = [{"work_id": work_id, "attempt": attempt} for work_id, attempt in self._begun.items()]
        return self._ask("PUT", "", {"session": self.session, **self._registration, "working": working})

    def take(self, wait: float = WAIT) -> Task | None:
        """The next task, or None when there was none for so long."""
        said = {"session": self.session, "wait_seconds": wait}
        task = self._ask("POST", "/tasks/take", said, patience=wait + 30)["task"]
        return None if task is None else Task.read(task)

    def begin(self, task: Task) -> bool:
        """Whether it is still wanted. Nothing may be done for it before."""
        self._begun[task.work_id] = task.attempt
        return self._say(task, "begin") or self._let_go(task)

    def progress(self, task: Task, text: str) -> bool:
        return self._say(task, "progress", text=text)

    def finish(self, task: Task, output: str, *, success: bool = True, exit_code: int = 0) -> bool:
        counts = self._say(task, "result", output=output, success=success, exit_code=exit_code)
        self._let_go(task)
        return counts

    def _let_go(self, task: Task) -> bool:
        """It is not wanted of us any more."""
        self._begun.pop(task.work_id, None)
        return False

    def unregister(self) -> None:
        self._ask("DELETE", f"?{urllib.parse.urlencode({'session': self.session})}", None)

    def _say(self, task: Task, what: str, **said: object) -> bool:
        body = {"session": self.session, "attempt": task.attempt, **said}
        is_attached = True
        while True:
            try:
                if not is_attached:
                    # The node was started again meanwhile.
                    self._attach()
                    is_attached = True
                return bool(self._ask("POST", f"/tasks/{task.work_id}/{what}", body)["wanted"])
            except Refused as refused:
                if not refused.is_passing and refused.errcode != NOT_ATTACHED:
                    raise
                is_attached = is_attached and refused.errcode != NOT_ATTACHED
                time.sleep(refused.retry_after)
            except OSError:
                time.sleep(1.0)

    def _ask(self, method: str, path: str, body: object, *, patience: float = 30.0) -> dict[str, Any]:
        """Raises `Refused`, or `OSError` when there is nobody."""
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=patience, context=self._tls) as answer:
                said: dict[str, Any] = json.load(answer)
                return said
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, json.load(error)) from None


def work(client: AgentClient, do: Callable[[AgentClient, Task], str]) -> None:
    """Until the program is ended. The node may go and come back meanwhile."""
    is_registered = False
    while True:
        try:
            if not is_registered:
                print(f"Attached as {client.register()['address']}.", flush=True)
                is_registered = True
            task = client.take()
            if task is not None and client.begin(task):
                client.finish(task, do(client, task))
        except Refused as refused:
            if refused.errcode == NOT_ATTACHED:
                is_registered = False
            elif refused.is_passing:
                time.sleep(refused.retry_after)
            else:
                raise
        except OSError as error:
            print(f"The node is away: {error}", file=sys.stderr, flush=True)
            is_registered = False
            time.sleep(1.0)


def echo(client: AgentClient, task: Task) -> str:
    client.progress(task, f"listening to {task.from_agent}")
    return task.prompt


def main() -> int:
    parser = argparse.ArgumentParser(description="An agent that says what it hears.")
    parser.add_argument("--url", default="http://localhost:7676", help="where the node is")
    parser.add_argument("--id", default="echo", help="the agent's id, without its node")
    parser.add_argument("--token-file", type=Path, required=True, help="the file that holds its token")
    parser.add_argument("--authority", help="a certificate to believe, such as the node's tls/ca.pem")
    options = parser.parse_args()
    tls = ssl.create_default_context(cafile=options.authority) if options.authority else None
    client = AgentClient(options.url, options.id, options.token_file.read_text().strip(), tls)
    # The end of the program is an orderly one, whichever way it was asked for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        work(client, echo)
    except KeyboardInterrupt:
        return 130
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    finally:
        try:
            client.unregister()
        except (Refused, OSError) as error:
            print(f"The node was not told: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
