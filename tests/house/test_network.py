"""No code waits for the network while it holds a database connection: peers that never answer could otherwise
occupy all connections.

Calls are resolved by type as far as annotations allow: parameters, attributes of `self`, results. Callbacks
are not followed.
"""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.house.source import Module, modules

Function = ast.AsyncFunctionDef | ast.FunctionDef
OPENS = {"transaction", "statements"}
"""Methods of `storage.database.Database` whose block holds a connection."""
CONNECTION = "Connection"
NETWORK = {"ClientSession", "FederationClient", "HomeserverClient", "Resolver"}
# Functions that still do. This list shrinks; it does not grow.
HOLDING: set[str] = set()


@dataclass
class Class:
    bases: list[str]
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


@dataclass
class Scope:
    """A function, with the types of its names."""

    module: Module
    node: Function
    inside: str | None
    outer: "Scope | None"

    @property
    def name(self) -> str:
        return ".".join(filter(None, (self.module.name, self.inside, self.node.name)))

    def arguments(self) -> Iterator[ast.arg]:
        given = self.node.args
        return iter((*given.posonlyargs, *given.args, *given.kwonlyargs))

    @cached_property
    def local_types(self) -> dict[str, ast.expr]:
        """Return the types of local variables, from an annotation or from the expression assigned to them."""
        found = {one.arg: one.annotation for one in self.arguments() if one.annotation is not None}
        for node in own_nodes(self.node):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = node.annotation
            elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
                found.setdefault(node.optional_vars.id, node.context_expr)
        return found


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes of a function without nested functions, which run when they are called."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.AsyncFunctionDef, ast.FunctionDef, ast.Lambda)):
            yield from own_nodes(child)


class Source:
    def __init__(self) -> None:
        self.classes: dict[str, list[Class]] = defaultdict(list)
        self.scopes: dict[int, Scope] = {}
        self.within: dict[tuple[int, str], Function] = {}
        self._called: dict[int, list[Function]] = {}
        self._implementations: dict[frozenset[str], list[Class]] = {}
        self.functions: dict[tuple[Path, str], Function] = {}
        self.imported: dict[Path, dict[str, str]] = {}
        self.paths = {module.name: module.path for module in modules()}
        for module in modules():
            self.imported[module.path] = {
                alias.asname or alias.name: f"{node.module}.{alias.name}"
                for node in ast.walk(module.tree())
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            self._visit(module, module.tree(), None, None)
        for _ in range(2):  # one may be set to another's
            for scope in self.scopes.values():
                self._note_attributes(scope)
            # Of what is known now more may follow.
            self._called.clear()

    def _visit(self, module: Module, node: ast.AST, inside: str | None, outer: Scope | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                made = Class([names_in(base)[-1] for base in child.bases if names_in(base)])
                self.classes[child.name].append(made)
                for one in child.body:
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                        made.attributes[one.target.id] |= set(names_in(one.annotation))
                    elif isinstance(one, Function):
                        made.methods[one.name] = one
                self._visit(module, child, child.name, outer)
            elif isinstance(child, Function):
                scope = self.scopes[id(child)] = Scope(module, child, inside, outer)
                if outer is not None:
                    self.within[id(outer.node), child.name] = child
                elif inside is None:
                    self.functions[module.path, child.name] = child
                self._visit(module, child, inside, scope)
            else:
                self._visit(module, child, inside, outer)

    def _note_attributes(self, scope: Scope) -> None:
        for node in own_nodes(scope.node):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = node.annotation if isinstance(node, ast.AnnAssign) else getattr(node, "value", None)
            is_own = isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"
            if is_own and value is not None and scope.inside is not None:
                types = names_in(value) if isinstance(node, ast.AnnAssign) else self.types(value, scope)
                for one in self.classes[scope.inside]:
                    one.attributes[target.attr] |= set(types)

    # -- types --

    def types(self, value: ast.expr, scope: Scope) -> set[str]:
        """Return the names of the classes that an expression may have."""
        match value:
            case ast.Name(id="self") if scope.inside is not None:
                return {scope.inside}
            case ast.Name(id=name):
                here: Scope | None = scope
                while here is not None:
                    known = here.local_types.get(name)
                    if known is not None:
                        is_argument = any(one.annotation is known for one in here.arguments())
                        return set(names_in(known)) if is_argument else self._set_to(known, here, name)
                    here = here.outer
                return set()
            case ast.Attribute(value=owner, attr=attribute):
                return {
                    found
                    for one in self._classes(self.types(owner, scope))
                    for found in one.attributes.get(attribute, ())
                }
            case ast.Await(value=inner):
                return self.types(inner, scope)
            case ast.Call(func=called):
                last = names_in(called)[-1:]
                if last and (last[0] in self.classes or last[0] in NETWORK):
                    return set(last)
                returned = [one.returns for one in self.called(called, scope) if one.returns is not None]
                return {name for annotation in returned for name in names_in(annotation)}
            case ast.BoolOp(values=values):
                return {found for one in values for found in self.types(one, scope)}
        return set()

    def _set_to(self, known: ast.expr, scope: Scope, name: str) -> set[str]:
        annotated = any(isinstance(node, ast.AnnAssign) and node.annotation is known for node in own_nodes(scope.node))
        if annotated:
            return set(names_in(known))
        return set() if name in names_in(known) else self.types(known, scope)

    def _classes(self, names: set[str]) -> Iterator[Class]:
        """Return the classes with their bases; for a protocol, with the classes that have its methods."""
        for name in names:
            for one in self.classes.get(name, ()):
                yield one
                yield from self._classes(set(one.bases) - {name})
                if "Protocol" in one.bases:
                    yield from self._having(set(one.methods))

    def _having(self, methods: set[str]) -> list[Class]:
        """Return the classes that implement a protocol with these methods."""
        key = frozenset(methods)
        if key not in self._implementations:
            self._implementations[key] = [
                one
                for candidates in self.classes.values()
                for one in candidates
                if methods and methods <= one.methods.keys() and "Protocol" not in one.bases
            ]
        return self._implementations[key]

    # -- calls --

    def called(self, function: ast.expr, scope: Scope) -> list[Function]:
        if id(function) not in self._called:
            found = self._called[id(function)] = []
            found += self._find_called(function, scope)
        return self._called[id(function)]

    def _find_called(self, function: ast.expr, scope: Scope) -> Iterator[Function]:
        match function:
            case ast.Attribute(value=owner, attr=name):
                for one in self._classes(self.types(owner, scope)):
                    if name in one.methods:
                        yield one.methods[name]
            case ast.Name(id=name):
                here = f"{scope.module.name}.{name}"
                module, _, last = self.imported[scope.module.path].get(name, here).rpartition(".")
                path = self.paths.get(module, scope.module.path)
                found = self.within.get((id(scope.node), name)) or self.functions.get((path, last))
                if found is not None:
                    yield found

    def waits_for_network(self, call: ast.Call, scope: Scope) -> bool:
        is_method = isinstance(call.func, ast.Attribute)
        return is_method and bool(self.types(call.func.value, scope) & NETWORK)

    def calls(self, node: ast.AST) -> Iterator[ast.Call]:
        """Return the awaited calls."""
        for one in own_nodes(node):
            waited = one.value if isinstance(one, ast.Await) else None
            if isinstance(one, ast.withitem):
                waited = one.context_expr
            elif isinstance(one, (ast.AsyncFor, ast.comprehension)):
                waited = one.iter
            if isinstance(waited, ast.Call):
                yield waited

    def holds(self, block: ast.AsyncWith, scope: Scope, holders: Collection[int]) -> bool:
        """Return whether the block holds a connection."""
        calls = [one.context_expr for one in block.items if isinstance(one.context_expr, ast.Call)]
        return any(
            (isinstance(call.func, ast.Attribute) and call.func.attr in OPENS)
            or any(id(one) in holders for one in self.called(call.func, scope))
            for call in calls
        )

    def blocks(self, scope: Scope, holders: Collection[int]) -> Iterator[ast.AsyncWith]:
        """Return the blocks that hold a connection."""
        for node in own_nodes(scope.node):
            if isinstance(node, ast.AsyncWith) and self.holds(node, scope, holders):
                yield node

    def holders(self) -> set[int]:
        """Return the context managers whose block holds a connection."""
        found: set[int] = set()
        while True:
            more = {
                key
                for key, scope in self.scopes.items()
                if key not in found
                and any(isinstance(node, ast.Yield) for block in self.blocks(scope, found) for node in own_nodes(block))
            }
            if not more:
                return found
            found |= more

    def waiting(self) -> set[int]:
        """Return the functions that wait for the network, directly or through a call."""
        calls = {
            key: [(call, self.called(call.func, scope)) for call in self.calls(scope.node)]
            for key, scope in self.scopes.items()
        }
        found = {
            key
            for key, scope in self.scopes.items()
            if any(self.waits_for_network(call, scope) for call, _ in calls[key])
        }
        while more := {
            key for key in calls.keys() - found if any(id(one) in found for _, called in calls[key] for one in called)
        }:
            found |= more
        return found


def takes_connection(scope: Scope) -> bool:
    """Return whether the function has a parameter for a database connection."""
    if f"storage.database.{CONNECTION}" != SOURCE.imported[scope.module.path].get(CONNECTION):
        return False
    return any(one.annotation and CONNECTION in names_in(one.annotation) for one in scope.arguments())


def test_no_network_access_while_holding_a_connection() -> None:
    """Neither in a block that holds a connection, nor in a function that is given one."""
    holders, waiting = SOURCE.holders(), SOURCE.waiting()
    assert any(SOURCE.scopes[one].name.endswith("FederationClient.request") for one in waiting)
    assert any(SOURCE.scopes[one].name.endswith("commit.RoomWriter.session") for one in holders)
    found = set()
    for key, scope in SOURCE.scopes.items():
        calls = [call for block in SOURCE.blocks(scope, holders) for call in SOURCE.calls(block)]
        if any(
            SOURCE.waits_for_network(call, scope) or any(id(one) in waiting for one in SOURCE.called(call.func, scope))
            for call in calls
        ) or (key in waiting and takes_connection(scope)):
            found.add(scope.name)
    assert found == HOLDING


def names_in(annotation: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            found.append(node.id)
        elif isinstance(node, ast.Attribute):
            found.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.append(node.value)
    return found


SOURCE = Source()
