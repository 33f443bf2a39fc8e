"""`palaver route`: where an address leads, and why."""

from collections.abc import Mapping
from typing import Any

from bridge.routing import Local, Remote, Unknown
from bridge.service.agent_operator.parts import Parts
from bridge.service.operator.arguments import Arguments


async def route(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Also for what is no address: `why` then names the mistake."""
    text = Arguments(given).text("address")
    decision = parts.routes.route(text)
    said: dict[str, Any] = {
        "asked": text,
        "address": None,
        "node_id": None,
        "url": None,
        "code": None,
        "candidates": [],
        "advice": None,
        "why": parts.routes.explain(text),
    }
    match decision:
        case Local(address):
            said |= {"decision": "local", "address": str(address), "node_id": address.node_id}
        case Remote(address, url):
            said |= {"decision": "remote", "address": str(address), "node_id": address.node_id, "url": url}
        case Unknown(code, _, candidates):
            said |= {
                "decision": "unknown",
                "code": code.value,
                "candidates": [str(candidate) for candidate in candidates],
                "advice": code.advice,
            }
    return said
