"""A loss that is the end of a longer method: those statements of it that make the loss, run by themselves."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any


class NoSlice(Exception):
    """The method cannot be cut there; the text says why."""


def statements_from(method: Callable[..., Any], given: Collection[str]) -> Callable[..., Any]:
    """A function of `self` and `given`, by name, that returns what the method returns.

    It consists of the method's own statements, in their order: those that its return value needs where the values
    named in `given` are there already. Raises `NoSlice` where that needs anything else of the method.
    """
    function = inspect.unwrap(method)
    if not isinstance(function, FunctionType):
        raise NoSlice(f"{method!r} is no Python function")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError) as error:
        raise NoSlice(f"its source cannot be read ({error})") from None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or not isinstance(definition.body[-1], ast.Return):
        raise NoSlice("it does not end with a return")
    kept: list[ast.stmt] = [definition.body[-1]]
    needed = _loaded(kept[0]) - set(given)
    for statement in reversed(definition.body[:-1]):
        if _stored(statement) & needed:
            kept.insert(0, statement)
            needed |= _loaded(statement) - set(given)
    bound = {name for statement in kept for name in _stored(statement)}
    missing = {
        name
        for name in needed - bound - {"self"}
        if name not in function.__globals__ and not hasattr(builtins, name)
    }
    if missing:
        raise NoSlice(f"its return value also needs {', '.join(sorted(missing))}")
    definition.body = kept
    definition.decorator_list = []
    names = [ast.arg(arg=name) for name in ("self", *given)]
    definition.args = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    definition.returns = None
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    scope: dict[str, Any] = {}
    code = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec")
    exec(code, function.__globals__, scope)  # the library's own statements, in the library's own module
    sliced: Callable[..., Any] = scope[definition.name]
    return sliced


def _loaded(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _stored(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
