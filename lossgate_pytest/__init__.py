"""pytest plugin: a loss is judged by `lossgate`, each of its cells a test, or all of them in one check.

The command runs in a process of its own, and nothing of lossgate's packages is imported here: those called `cases`
or `reports` are the project's. What is here runs in every session of pytest, so the rest is imported where a test
needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from lossgate_pytest.check import Checker
    from lossgate_pytest.result import CellResult, Run
    from lossgate_pytest.runs import Runs

_CELL: Final = "lossgate_cell"
_MARK: Final = "lossgate"
_MARKER: Final = (
    f"{_MARK}(target, loss_type=..., level=..., beta=..., dtype=..., examples=..., seed=...): "
    "a test for each cell of a loss, judged by lossgate; lists are crossed."
)

_JUDGED: Final[pytest.StashKey[tuple[Runs, Run, CellResult]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The interpreter that has lossgate, and options for `lossgate run`."""
    about = "Interpreter that lossgate is installed in (default: this one)."
    parser.getgroup("lossgate").addoption("--lossgate-python", metavar="PATH", help=about)
    parser.addini("lossgate_python", about)
    parser.addini("lossgate_options", "More options for `lossgate run`, such as --jobs 2.", type="args")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each cell that the closest mark names."""
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is None:
        return
    from lossgate_pytest.question import Question

    where = metafunc.definition.nodeid
    if sum(one.name == _MARK for one in metafunc.definition.own_markers) > 1:
        pytest.fail(f"{where}: two lossgate marks; one test takes one", pytrace=False)
    try:
        question = Question.of(*mark.args, **mark.kwargs)
    except ValueError as error:
        raise pytest.fail.Exception(f"{where}: the lossgate mark: {error}", pytrace=False) from None
    if _CELL not in metafunc.fixturenames:
        metafunc.fixturenames.append(_CELL)
    asked = [(question, cell) for cell in question.cells]
    metafunc.parametrize(_CELL, asked, indirect=True, ids=[cell.id for cell in question.cells])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have the cell judged where the test does not ask for it; a mark that nothing heeds must not pass."""
    if item.get_closest_marker(_MARK) is None or not isinstance(item, pytest.Function):
        return
    if _asked(item) is None:
        raise pytest.UsageError(
            f"{item.nodeid}: a lossgate mark does nothing here; pytest makes no tests of a unittest.TestCase's "
            "methods: use a function, or a plain class"
        )
    if _CELL not in item.fixturenames:
        item.fixturenames.append(_CELL)


def _asked(item: pytest.Item) -> Any:
    """The question and the cell that a test was made for, or None."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(_CELL)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail, skip or go on with the body of the test, by what became of its cell."""
    judged = pyfuncitem.stash.get(_JUDGED, None)
    if judged is not None:
        from lossgate_pytest.check import settle

        settle(pyfuncitem, *judged)


@pytest.fixture(scope="session")
def _lossgate_runs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    from lossgate_pytest.command import Command
    from lossgate_pytest.runs import Runs

    shared = tmp_path_factory.getbasetemp()
    # Processes of pytest-xdist have folders of their own in one that they share.
    return Runs(Command.of(pytestconfig), shared.parent if hasattr(pytestconfig, "workerinput") else shared)


@pytest.fixture
def lossgate_cell(request: pytest.FixtureRequest, _lossgate_runs: Runs) -> CellResult:
    """What became of the cell that the test is for: verdict, loss, gradient, witness, ..."""
    from lossgate_pytest.check import judged

    if getattr(request, "param", None) is None:
        pytest.fail("lossgate_cell is for tests with a lossgate mark", pytrace=False)
    question, cell = request.param
    # One run has what all tests of this mark ask for that were not deselected.
    every = (_asked(item) for item in request.session.items)
    wanted = question.narrowed(one[1] for one in every if one is not None and one[0] == question)
    run = judged(_lossgate_runs, wanted)
    result = run.result(cell)
    request.node.stash[_JUDGED] = (_lossgate_runs, run, result)
    return result


@pytest.fixture
def lossgate(request: pytest.FixtureRequest, _lossgate_runs: Runs) -> Checker:
    """`lossgate.check("my_pkg.losses:grpo_loss", loss_type="grpo", beta=[0, 0.04])` fails where a cell does."""
    from lossgate_pytest.check import Checker

    return Checker(request.node, _lossgate_runs)
