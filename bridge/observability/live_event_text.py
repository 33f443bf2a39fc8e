"""What happens on a node, a line each, as a person at a terminal reads it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.connectors.registry import CONNECTORS
from bridge.observability.live_event import LiveType
from bridge.text.terminal import harmless, short
from bridge.text.times import moment


def live_line(said: Mapping[str, Any]) -> str:
    """Of what `bridge.observability.live_event` makes, as JSON; harmless for a terminal."""
    kind = said.get("type")
    if kind == "left_out":
        return f"          … {said.get('count')} were left out, being too many at once"
    text = _TEXTS[kind](said) if kind in _TEXTS else str(said)
    return harmless(f"{_time(said.get('at'))}  {kind!s:<8}  {text}", LONGEST_LINE)


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
        case "dropped" | "left_out":
            return "yellow"
    kind = _OF_CONNECTORS.get(str(said.get("type")))
    return "" if kind is None else kind.style(said)


def _agent(said: Mapping[str, Any]) -> str:
    agent = short(said.get("agent"))
    with_task = f" with {short(said.get('current_task'))}" if said.get("current_task") else ""
    doing = f"{said.get('status')}{with_task}"
    match said.get("what"):
        case "came":
            able = ", ".join(map(str, said.get("capabilities") or [])) or "nothing that it says"
            return f"{agent} is there: {said.get('runtime') or 'an agent'}, {doing}; can do {short(able)}"
        case "went":
            return f"{agent} has gone: {short(said.get('reason'))}"
        case "forgotten":
            return f"{agent} is forgotten"
        case "status":
            return f"{agent} is {doing}"
    return f"{agent} is another now: {short(said.get('runtime'))}, {doing}"


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
    return f"{short(said.get('task'))}  {short(said.get('to'))}: {short(said.get('text'))}"


def _dropped(said: Mapping[str, Any]) -> str:
    which = "of a task that is not known" if said.get("task") is None else f"of {short(said.get('task'))}"
    return f"{short(said.get('what'))} {which} is not taken: {short(said.get('why'))}"


LONGEST_LINE: Final = 2_000
_OF_CONNECTORS: Final = {type_: kind for one in CONNECTORS for type_, kind in one.live.items()}
TYPES: Final = (*map(str, LiveType), *_OF_CONNECTORS)
"""Of what there is to watch."""
_TEXTS: Final[Mapping[Any, Callable[[Mapping[str, Any]], str]]] = {
    "agent": _agent,
    "task": _task,
    "progress": _progress,
    "dropped": _dropped,
    **{type_: kind.line for type_, kind in _OF_CONNECTORS.items()},
}


def _task_names(said: Mapping[str, Any]) -> str:
    return f"{short(said.get('task'))}  {short(said.get('from'))} → {short(said.get('to'))}"


def _time(at: Any) -> str:
    """That of the day: whoever watches knows which it is."""
    text = moment(at) if type(at) is int else "–"
    return text[11:19] if text.endswith(" UTC") else text
