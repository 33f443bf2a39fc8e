"""What happens on a node, a line each, as a person at a terminal reads it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.connectors.cis.act import Verdict
from bridge.terminal_text import harmless
from bridge.time_text import moment

LONGEST: Final = 500
"""Characters of one text in it."""
_COMMON: Final = "io.cis.agent."
_GOOD: Final = frozenset({Verdict.TAKEN, Verdict.KEPT, Verdict.REPEATED, Verdict.SENT})


def live_line(said: Mapping[str, Any]) -> str:
    """Of what `bridge.live_event` makes, as JSON; harmless for a terminal."""
    kind = said.get("type")
    if kind == "left_out":
        return f"          … {said.get('count')} were left out, being too many at once"
    text = _TEXTS[kind](said) if kind in _TEXTS else str(said)
    return harmless(f"{_time(said.get('at'))}  {kind!s:<8}  {text}", LONGEST * 4)


def live_style(said: Mapping[str, Any]) -> str:
    """The colour of the line, for `rich`."""
    what = said.get("what")
    match said.get("type"):
        case "agent":
            return {"came": "green", "went": "yellow", "forgotten": "dim"}.get(str(what), "")
        case "task":
            return {"done": "green", "failed": "red", "timed_out": "red", "cancelled": "yellow"}.get(
                str(what), ""
            )
        case "cis":
            return "dim" if what in _GOOD else "yellow"
        case "dropped" | "left_out":
            return "yellow"
    return ""


def _agent(said: Mapping[str, Any]) -> str:
    agent = _short(said.get("agent"))
    with_task = f" with {_short(said.get('current_task'))}" if said.get("current_task") else ""
    doing = f"{said.get('status')}{with_task}"
    match said.get("what"):
        case "came":
            able = ", ".join(map(str, said.get("capabilities") or [])) or "nothing that it says"
            return f"{agent} is there: {said.get('runtime') or 'an agent'}, {doing}; can do {_short(able)}"
        case "went":
            return f"{agent} has gone: {_short(said.get('reason'))}"
        case "forgotten":
            return f"{agent} is forgotten"
        case "status":
            return f"{agent} is {doing}"
    return f"{agent} is another now: {_short(said.get('runtime'))}, {doing}"


def _task(said: Mapping[str, Any]) -> str:
    state = str(said.get("what")).replace("_", " ")
    return f"{_task_names(said)}  {state}{_ended(said)}"


def _ended(said: Mapping[str, Any]) -> str:
    if said.get("error_code"):
        return f": {said['error_code']}"
    if said.get("success") is False and said.get("what") == "failed":
        return f": exit code {said.get('exit_code')}"
    return ""


def _progress(said: Mapping[str, Any]) -> str:
    return f"{_short(said.get('task'))}  {_short(said.get('to'))}: {_short(said.get('text'))}"


def _dropped(said: Mapping[str, Any]) -> str:
    which = "of a task that is not known" if said.get("task") is None else f"of {_short(said.get('task'))}"
    return f"{_short(said.get('what'))} {which} is not taken: {_short(said.get('why'))}"


def _cis(said: Mapping[str, Any]) -> str:
    is_ours = said.get("direction") == "out"
    peer = _short(said.get("peer")) or ("everybody" if is_ours else "somebody")
    event_type = _short(said.get("event_type")).removeprefix(_COMMON) or "something"
    subject = f" {_short(said.get('subject'))}" if said.get("subject") else ""
    verdict = str(said.get("what")).replace("_", " ")
    detail = f" ({_short(said.get('detail'))})" if said.get("detail") else ""
    return f"{'→' if is_ours else '←'} {peer}  {event_type}{subject}: {verdict}{detail}"


_TEXTS: Final[Mapping[Any, Callable[[Mapping[str, Any]], str]]] = {
    "agent": _agent,
    "task": _task,
    "progress": _progress,
    "dropped": _dropped,
    "cis": _cis,
}


def _task_names(said: Mapping[str, Any]) -> str:
    return f"{_short(said.get('task'))}  {_short(said.get('from'))} → {_short(said.get('to'))}"


def _short(value: Any) -> str:
    """None of its texts pushes the others out of the line."""
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _time(at: Any) -> str:
    """That of the day: whoever watches knows which it is."""
    text = moment(at) if type(at) is int else "–"
    return text[11:19] if text.endswith(" UTC") else text
