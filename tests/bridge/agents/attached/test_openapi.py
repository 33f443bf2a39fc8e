"""The OpenAPI document."""

import re
from pathlib import Path
from typing import Any

from bridge.agents.attached.messages import OPERATIONS
from bridge.agents.attached.openapi import document
from bridge.text.yaml_text import yaml_text

FILE = Path(__file__).parents[4] / "docs" / "agents-openapi.yaml"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_file_in_docs_is_up_to_date() -> None:
    """`palaver agents openapi > docs/agents-openapi.yaml` updates it."""
    assert FILE.read_text("utf-8") == yaml_text(document())


def test_all_references_resolve() -> None:
    """And every component is referenced."""
    described = document()
    components = described["components"]
    there = {f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in components[kind]}
    mentioned = references(described)
    assert mentioned <= there
    # The schemas of the WebSocket are named in its description only.
    assert there - mentioned <= {f"#/components/schemas/{name}" for name in ("Call", "CallAnswer", "Push")}


def test_every_operation_is_described() -> None:
    """By its name, with its request, its response and each path parameter."""
    paths = document()["paths"]
    for operation in OPERATIONS:
        described = paths[operation.path][operation.method.lower()]
        assert described["operationId"] == operation.name
        in_path = {one["name"] for one in described["parameters"] if one["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", operation.path))
        assert ("requestBody" in described) == (operation.request_type is not None and not operation.in_query)
        assert set(described["responses"]) > {"200", "400", "401"}


def test_there_are_no_generated_titles() -> None:
    """Pydantic's titles repeat the names."""
    assert "title" not in document()["components"]["schemas"]["Register"]
