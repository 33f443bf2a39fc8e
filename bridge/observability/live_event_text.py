"""Formats live events as lines for a terminal."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from bridge.connectors.registry import CONNECTORS
from bridge.observability.live_event import LiveType
from bridge.text.terminal import harmless, short
from bridge.text.times import moment


def live_line(data: Mapping[str, Any]) -> str:
    """`data` is the JSON of an event of `bridge.observability.live_event`; the line is safe for a
    terminal."""
    kind = data.get("type")
    if kind == "left_out":
        return f"          … {data.get('count')} events were skipped, because they came too fast"
    text = _TEXTS[kind](data) if kind in _TEXTS else str(data)
    return harmless(f"{_time(data.get('at'))}  {kind!s:<8}  {text}", MAX_LINE)


def live_style(data: Mapping[str, Any]) -> str:
    """The line's style for `rich`."""
    what = data.get("what")
    match data.get("type"):
        case "agent":
            return {"came": "green", "went": "yellow", "forgotten": "dim"}.get(str(what), "")
        case "task":
            return {"done": "green", "failed": "red", "timed_out": "red", "cancelled": "yellow"}.get(str(what), "")
        case "dropped" | "left_out":
            return "yellow"
    kind = _CONNECTOR_KINDS.get(str(data.get("type")))
    return "" if kind is None else kind.style(data)


def _agent(data: Mapping[str, Any]) -> str:
    agent = short(data.get("agent"))
    with_task = f" with {short(data.get('current_task'))}" if data.get("current_task") else ""
    state = f"{data.get('status')}{with_task}"
    match data.get("what"):
        case "came":
            capabilities = ", ".join(map(str, data.get("capabilities") or [])) or "nothing declared"
            runtime = data.get("runtime") or "an agent"
            return f"{agent} is online: {runtime}, {state}; capabilities: {short(capabilities)}"
        case "went":
            return f"{agent} is offline: {short(data.get('reason'))}"
        case "forgotten":
            return f"{agent} was removed"
        case "status":
            return f"{agent} is {state}"
    return f"{agent} has changed: {short(data.get('runtime'))}, {state}"


def _task(data: Mapping[str, Any]) -> str:
    state = str(data.get("what")).replace("_", " ")
    return f"{_task_names(data)}  {state}{_ended(data)}"


def _ended(data: Mapping[str, Any]) -> str:
    if data.get("error_code"):
        return f": {data['error_code']}"
    if data.get("success") is False and data.get("what") == "failed":
        return f": exit code {data.get('exit_code')}"
    return ""


def _progress(data: Mapping[str, Any]) -> str:
    return f"{short(data.get('task'))}  {short(data.get('to'))}: {short(data.get('text'))}"


def _dropped(data: Mapping[str, Any]) -> str:
    which = "of an unknown task" if data.get("task") is None else f"of {short(data.get('task'))}"
    return f"{short(data.get('what'))} {which} was rejected: {short(data.get('why'))}"


MAX_LINE: Final = 2_000
_CONNECTOR_KINDS: Final = {type_: import_module(module) for one in CONNECTORS for type_, module in one.live.items()}
TYPES: Final = (*map(str, LiveType), *_CONNECTOR_KINDS)
"""All types that can be watched."""
_TEXTS: Final[Mapping[Any, Callable[[Mapping[str, Any]], str]]] = {
    "agent": _agent,
    "task": _task,
    "progress": _progress,
    "dropped": _dropped,
    **{type_: kind.line for type_, kind in _CONNECTOR_KINDS.items()},
}


def _task_names(data: Mapping[str, Any]) -> str:
    return f"{short(data.get('task'))}  {short(data.get('from'))} → {short(data.get('to'))}"


def _time(at: Any) -> str:
    """The time of day only; the date is clear to the viewer."""
    text = moment(at) if type(at) is int else "–"
    return text[11:19] if text.endswith(" UTC") else text
