"""Targets that installed packages ship: found by name, opened without lossgate being installed beside them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from cases.case import Case
from harness.client import TargetUnavailable, WorkerClient
from harness.entry_points import Shipped, shipped
from tests.cli.conftest import COMMAND

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


def install(site: Path, project: Path) -> None:
    """Put a project's modules and its entry points into a folder, as an installer does."""
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    for module in project.glob("*.py"):
        (site / module.name).write_text(module.read_text())
    facts = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in about["entry-points"].items()
    ]
    (facts / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages: the example's."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, EXAMPLE)
    return folder


@pytest.fixture
def ship(tmp_path: Path, site: Path) -> Callable[..., None]:
    """Install a package with the given entry point beside the example."""

    def ship_it(source: str, package: str = "other", name: str = "other") -> None:
        project = tmp_path / package
        project.mkdir()
        (project / f"{package}_module.py").write_text(source)
        (project / "pyproject.toml").write_text(
            f'[project]\nname = "{package}"\nversion = "2.5"\n'
            f'[project.entry-points."lossgate.targets"]\n{name} = "{package}_module:target"\n'
        )
        install(site, project)

    return ship_it


def opened(site: Path, name: str) -> WorkerClient:
    """The client of a target, where the packages of a folder are installed."""
    return WorkerClient(sys.executable, name, path=(site,))


def test_the_example_is_judged_by_its_name(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds it, and it keeps its promise to ignore whatever stands at masked positions."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    run = subprocess.run(
        [
            *(COMMAND, "run", "packed-losses", "--loss-type", "grpo", "--level", "token", "--beta", "0"),
            *("--dtype", "float32", "--examples", "4", "--quiet", "--all", "--format", "json", "--strict"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (cell,) = json.loads(run.stdout)["cells"]
    assert cell["target"] == "packed-losses 0.1.0"
    # It does not protect itself where a ratio exceeds float32.
    assert cell["verdict"] in ("conforms", "overflow")


def test_what_is_shipped_is_listed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, package and version, without opening it; an interpreter that does not answer ships nothing."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    assert Shipped("packed-losses", "packed-losses", "0.1.0") in shipped(sys.executable)
    assert shipped("/nowhere/python") == ()


def test_an_unknown_name_is_compared_with_what_is_shipped(site: Path) -> None:
    """The names of packages are among those that are known here."""
    with pytest.raises(TargetUnavailable, match=r"known here: .*packed-losses.*fault:NAME") as caught:
        opened(site, "packed-loses").facts  # noqa: B018 # the property opens it
    assert caught.value.hint == "did you mean 'packed-losses'?"


def test_a_known_name_is_not_a_package_s_to_take(site: Path, ship: Callable[..., None]) -> None:
    """A package that calls its target as a library is called is never asked; the library is what is missed."""
    ship("def target(api): raise SystemExit", name="verl")
    with pytest.raises(TargetUnavailable, match="verl is not installed"):
        opened(site, "verl").facts  # noqa: B018 # the property opens it


INCOMPLETE = """
def target(api):
    class Incomplete(api.Target):
        def loss(self, case): ...
    return Incomplete()
"""
NO_TEXT = """
def target(api):
    class NoText(api.Target):
        label, versions, supports, conventions = "no text", {"torch": int}, api.Support(), {}
        def loss(self, case): ...
    return NoText()
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nowhere_to_be_found", "raised ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def other(api): ...", "raised AttributeError: module 'other_module' has no attribute 'target'"),
        ("def target(): ...", "raised TypeError: target() takes 0 positional arguments but 1 was given"),
        ("def target(api): raise SystemExit('no')", "raised SystemExit: no"),
        (INCOMPLETE, "raised AttributeError: 'Incomplete' object has no attribute 'label'"),
        (NO_TEXT, "raised TypeError: Object of type type is not JSON serializable"),
        ("def target(api): return object()", "returned no target but an object of type object"),
        ("def target(api): raise api.Unavailable('broken', 'no GPU here')", "no GPU here"),
    ],
)
def test_a_broken_entry_point_is_one_sentence(
    site: Path, ship: Callable[..., None], source: str, says: str
) -> None:
    """It names the package; a package that knows why it cannot be judged says so itself."""
    ship(source)
    with pytest.raises(TargetUnavailable) as caught:
        opened(site, "other").facts  # noqa: B018 # the property opens it
    assert caught.value.kind == "broken"
    whole = (
        says
        if "api.Unavailable" in source
        else f"other, an entry point of other 2.5 (other_module:target), {says}"
    )
    assert caught.value.message == whole


def test_two_packages_with_one_name_are_refused(site: Path, ship: Callable[..., None]) -> None:
    """Neither is taken by chance."""
    ship("def target(api): ...", package="rival", name="packed-losses")
    says = "several packages have a target 'packed-losses': packed-losses and rival"
    with pytest.raises(TargetUnavailable, match=says):
        opened(site, "packed-losses").facts  # noqa: B018 # the property opens it


def test_a_gradient_of_its_own_travels(
    site: Path, ship: Callable[..., None], make_case: Callable[..., Case]
) -> None:
    """A target that answers with loss and gradient needs no graph."""
    ship(
        "import torch\n"
        "def target(api):\n"
        "    class Own(api.Target):\n"
        "        label, versions, supports, conventions = 'own', {}, api.Support(options=('old_logps',)), {}\n"
        "        def loss(self, case): return self.answer(case).loss\n"
        "        def answer(self, case):\n"
        "            return api.Answer(torch.tensor(1.5), torch.full_like(case.logps, 2.0))\n"
        "    return Own()\n"
    )
    with opened(site, "other") as client:
        outcome = client.ask(make_case("float32"))
    assert outcome.status == "ok"
    assert outcome.loss == 1.5
    assert (outcome.gradient == 2.0).all()  # type: ignore[union-attr] # an answer that is ok has one
