"""The description of the interface in OpenAPI 3.1, made from the operations and their models."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from bridge.agents.attached import messages
from bridge.agents.attached.messages import DOCUMENT, MAX_AGENT_ID, OPERATIONS, SOCKET, Operation

VERSION: Final = "1.0.0"
PROBLEMS: Final[Mapping[int, str]] = {
    400: "Something in the message is wrong; `field` says what.",
    401: "There is no token, or not a good one.",
    403: "The token is another agent's.",
    404: "There is no such agent, or nothing at this place.",
    409: "The agent is not attached, or another session has taken its place: register again, or stop.",
    413: "The message is too large.",
    429: "That is too much at once; `retry_after_ms` says when to go on.",
    503: "The node cannot say now; ask again.",
}
_DESCRIPTION: Final = """\
How a program attaches itself to a node as one of its agents: it registers, takes tasks, begins them,
reports, and answers. `palaver agents token create ID` makes the token that it needs.

What is said twice counts once: tasks are named by `work_id` and `attempt`, and every call may be repeated
until it is answered. A task that was taken but not begun in time is given again. One that was begun is never
given to anybody else: if the program is lost, it fails.

All of it can be done by HTTP alone, with `take` waiting for tasks; or through the WebSocket, where tasks come
by themselves and each text message of the program is a `Call` with the body that the operation has here.
"""
_WEBSOCKET: Final = """\
A WebSocket. The program sends `Call` objects, each a text message, and gets a `CallAnswer` for each; tasks
and cancellations come as `Push` objects once it has registered. `take` is not needed here. Closing it changes
nothing: the program may connect again and register with the same session.
"""


def document() -> dict[str, Any]:
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (messages.Problem, "serialization"),
        (messages.Call, "validation"),
        (messages.CallAnswer, "serialization"),
        (messages.Push, "serialization"),
    ]
    for operation in OPERATIONS:
        if operation.request_type is not None and not operation.in_query:
            models.append((operation.request_type, "validation"))
        models.append((operation.response_type, "serialization"))
    _, found = models_json_schema(models, ref_template="#/components/schemas/{model}")
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    paths[SOCKET] = {"get": _socket()}
    paths[DOCUMENT] = {"get": _document()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Palaver: agents that attach themselves",
            "version": VERSION,
            "description": _DESCRIPTION,
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Of one agent: `plv_…`."}
            },
            "responses": {
                f"Problem{status}": {"description": description, "content": _json("Problem")}
                for status, description in PROBLEMS.items()
            },
            "schemas": {name: _without_titles(schema) for name, schema in sorted(found["$defs"].items())},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    described["parameters"] = [_agent_id(), *([_work_id()] if operation.of_task else [])]
    if operation.request_type is not None and operation.in_query:
        described["parameters"] += list(_query(operation.request_type))
    elif operation.request_type is not None:
        described["requestBody"] = {"required": True, "content": _json(operation.request_type.__name__)}
    described["responses"] = {
        "200": {"description": "Done.", "content": _json(operation.response_type.__name__)},
        **_problems(),
    }
    return described


def _socket() -> dict[str, Any]:
    return {
        "operationId": "socket",
        "summary": "The same through a WebSocket.",
        "description": _WEBSOCKET,
        "parameters": [_agent_id()],
        "responses": {"101": {"description": "The connection is a WebSocket now."}, **_problems()},
    }


def _document() -> dict[str, Any]:
    return {
        "operationId": "openapi",
        "summary": "This description.",
        "security": [],
        "responses": {
            "200": {
                "description": "OpenAPI 3.1.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            }
        },
    }


def _problems() -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in PROBLEMS}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _agent_id() -> dict[str, Any]:
    return {
        "name": "agent_id",
        "in": "path",
        "required": True,
        "description": "The agent's id, without its node.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_AGENT_ID},
    }


def _work_id() -> dict[str, Any]:
    return {
        "name": "work_id",
        "in": "path",
        "required": True,
        "description": "As in the task.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,32}$"},
    }


def _query(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    schema = _without_titles(model.model_json_schema())
    for name, described in schema["properties"].items():
        description = described.pop("description", "")
        required = name in schema.get("required", [])
        yield {
            "name": name,
            "in": "query",
            "required": required,
            "description": description,
            "schema": described,
        }


def _without_titles(schema: Any) -> Any:
    """Pydantic makes a title of every name; whoever reads the name has read it."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema
