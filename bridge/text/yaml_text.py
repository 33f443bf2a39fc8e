"""Writes values as readable YAML, and reads them. Synapse reads registration files with the same library."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.scanner import ScannerError


@dataclass(frozen=True, slots=True)
class NotYaml:
    """Invalid YAML. `reason` has the line and the error, but none of the text, which may be a secret."""

    reason: str


def yaml_text(value: Any) -> str:
    """Write a JSON value as YAML."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def read_yaml(text: str) -> Any | NotYaml:
    """Return the value of a single document, or None if the text is empty. The caller limits the text's
    size."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        # Other error messages of the library quote the text.
        problem = error.problem if isinstance(error, ScannerError | _Unsupported) else "this is not valid YAML"
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        return NotYaml(f"Line {line}: {problem}.")
    except RecursionError:
        return NotYaml("It is nested too deeply.")
    except (yaml.YAMLError, ValueError, LookupError, AttributeError):
        # Tags and dates with an invalid value raise the last three.
        return NotYaml("It is not valid YAML.")


class _Unsupported(yaml.MarkedYAMLError):
    """Valid YAML that is refused in a file of settings."""


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, and aliases, with which a small text can expand to an enormous value."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # the stubs leave it out
        if isinstance(event, yaml.AliasEvent):
            mark: Any = event.start_mark
            raise _Unsupported(problem="aliases are not supported, repeat the value", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode):
                if key.value in seen:
                    raise _Unsupported(problem="this key occurs twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, writes multi-line text as blocks, and writes no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)
