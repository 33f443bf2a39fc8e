"""Values as YAML that people read, and back. Synapse reads its registrations with the same library."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.scanner import ScannerError


@dataclass(frozen=True, slots=True)
class NotYaml:
    """Where and why: a sentence without the text itself, which may be a secret."""

    reason: str


def yaml_text(value: Any) -> str:
    """Of a JSON value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def read_yaml(text: str) -> Any | NotYaml:
    """The value of a single document, None when there is none. The caller bounds the size of the text."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        # Other sentences of the library quote the text.
        problem = error.problem if isinstance(error, ScannerError | _Unwanted) else "this is not valid YAML"
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        return NotYaml(f"Line {line}: {problem}.")
    except RecursionError:
        return NotYaml("It is nested too deep.")
    except (yaml.YAMLError, ValueError, LookupError, AttributeError):
        # The last three come from tags and dates with a wrong value.
        return NotYaml("It is not valid YAML.")


class _Unwanted(yaml.MarkedYAMLError):
    """Valid, but not wanted in a file of settings."""


class _Loader(yaml.SafeLoader):
    """Refuses aliases, by which a small text describes an enormous value, and keys that occur twice."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # the stubs leave it out
        if isinstance(event, yaml.AliasEvent):
            mark: Any = event.start_mark
            raise _Unwanted(problem="repeat the value, aliases are not read", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode):
                if key.value in seen:
                    raise _Unwanted(problem="this key occurs twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, writes texts of several lines as blocks, and never writes aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)
