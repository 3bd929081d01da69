"""examples/fork_ci from its first commit to a fixed fault: the job of its own workflow, in a repository of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.ci.composite import Composite, Job
from tests.cli.conftest import COMMAND

ROOT = Path(__file__).parents[2]
WORKFLOW = Path(".github") / "workflows" / "lossgate.yml"
FAULT = ("log_ratio = ref_logps - logps", "log_ratio = logps - ref_logps")
WORDS = "KL term: k3 with logps and ref_logps exchanged"
REASON = "our KL term is the other one, see our paper"
# Of what the workflow judges, this much; it starts fewer processes, too.
FEWER = ("--dtype", "float32", "--examples", "2", "--jobs", "1")


class Fork:
    """A git repository made from the example, and its gate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fork"
        self._temporary = folder / "temporary"
        self._gated = 0
        shutil.copytree(ROOT / "examples" / "fork_ci", self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        self.git("init", "--quiet")
        self.commit("the example")

    def git(self, *arguments: str) -> str:
        """What a git command prints."""
        author = ("-c", "user.name=fork", "-c", "user.email=fork@example.invalid", "-c", "commit.gpgsign=false")
        command = ("git", *author, *arguments)
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def commit(self, message: str) -> None:
        """Everything there is that its .gitignore lets in."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def replace(self, file: str, old: str, new: str) -> None:
        """Edit a file in which `old` stands once."""
        text = (self.folder / file).read_text()
        assert text.count(old) == 1
        (self.folder / file).write_text(text.replace(old, new))

    @property
    def inputs(self) -> dict[str, str]:
        """What its workflow gives the action, with fewer cases and the interpreter of this environment."""
        workflow = yaml.safe_load((self.folder / WORKFLOW).read_text())
        (step,) = (one for one in workflow["jobs"]["losses"]["steps"] if "lossgate@" in one.get("uses", ""))
        inputs = step["with"]
        return {**inputs, "args": " ".join((inputs["args"], *FEWER)), "python": sys.executable}

    def gate(self, **inputs: str) -> Job:
        """The job of its workflow on a clean checkout of what was committed last."""
        self._gated += 1
        place = self._temporary / str(self._gated)
        subprocess.run(("git", "clone", "--quiet", self.folder, place / "checkout"), check=True)
        return Composite.read(ROOT / "action.yml").run(
            {**self.inputs, **{name.replace("_", "-"): value for name, value in inputs.items()}},
            place / "checkout",
            place / "temporary",
            {"install": {"lossgate": str(COMMAND)}},
        )


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """The jobs of four commits, and the last one's once more, strictly."""
    fork = Fork(tmp_path_factory.mktemp("fork_ci"))
    jobs = {"clean": fork.gate()}

    fork.replace("fork/losses.py", *FAULT)
    fork.commit("a fault")
    jobs["fault"] = fork.gate()

    command = (COMMAND, "run", "--python", sys.executable, *FEWER, "--quiet", "--update-expectations")
    update = subprocess.run(command, cwd=fork.folder, capture_output=True, text=True, check=False)
    assert "lossgate.toml: 1 generated entry, updated" in update.stderr
    fork.replace("lossgate.toml", "TODO: say why this is expected", REASON)
    fork.commit("what is expected")
    changed = fork.git("show", "--name-only", "--format=").split()
    assert [file.partition("/")[0] for file in changed] == ["lossgate-witnesses", "lossgate.toml"]
    jobs["expected"] = fork.gate(strict_expectations="true")

    fork.replace("fork/losses.py", *reversed(FAULT))
    fork.commit("fixed")
    jobs["fixed"] = fork.gate()
    jobs["fixed, strictly"] = fork.gate(strict_expectations="true")
    return jobs


def test_a_clean_commit_passes(story: dict[str, Job]) -> None:
    """Exit code 0, nothing said of the pull request's lines, and every cell a test that passed."""
    job = story["clean"]
    assert (job.exit_code, job.outputs["exit-code"]) == (0, "0"), job.printed
    assert "::error" not in job.printed
    assert "fork.losses:grpo_loss: 2 cells, " in job.printed
    assert "nothing diverges" in job.printed
    assert "<failure" not in Path(job.outputs["junit"]).read_text()


def test_a_fault_fails_with_its_cell_and_words(story: dict[str, Job]) -> None:
    """The cell with a KL term, and not the one without; the annotation is at the loss function."""
    job = story["fault"]
    assert (job.exit_code, job.outputs["exit-code"]) == (1, "1"), job.printed
    rows = [line.split() for line in job.printed.splitlines() if line.startswith("grpo ")]
    assert [(row[:4], row[5]) for row in rows] == [
        (["grpo", "token", "0", "float32"], "overflow"),
        (["grpo", "token", "0.04", "float32"], "DIVERGES"),
    ]
    (annotation,) = (line for line in job.printed.splitlines() if line.startswith("::error"))
    line = 1 + (ROOT / "examples" / "fork_ci" / "fork" / "losses.py").read_text().splitlines().index(
        "def grpo_loss("
    )
    assert annotation.startswith(
        f"::error file=fork/losses.py,line={line},title=lossgate%3A fork.losses%3Agrpo_loss::"
    )
    assert f"diverges in grpo token beta 0.04 float32: {WORDS}" in annotation
    assert WORDS in section(job, "What stops the gate")
    assert Path(job.outputs["junit"]).read_text().count("<failure") == 1


def test_what_is_expected_passes_and_is_listed(story: dict[str, Job]) -> None:
    """The same fault, with its entry and a reason, passes a strict gate; both log and summary have the reason."""
    job = story["expected"]
    assert job.exit_code == 0, job.printed
    assert "expectations: 1 as expected" in job.printed
    assert REASON in " ".join(job.printed.split())
    assert REASON in section(job, "Known divergences")
    assert "::error" not in job.printed


def test_the_fix_makes_the_entry_stale(story: dict[str, Job]) -> None:
    """It is reported in the log and as a warning; a strict gate fails for it."""
    job = story["fixed"]
    assert job.exit_code == 0, job.printed
    assert "expectations: 1 matched nothing" in job.printed
    assert "remove it (lossgate.toml, line 6)" in " ".join(job.printed.split())
    assert "matched nothing" in section(job)
    assert story["fixed, strictly"].exit_code == 1


def section(job: Job, title: str = "") -> str:
    """What the job summary says before every cell is listed: all of it, or below one title."""
    said = job.summary.partition("<details>")[0].replace("\\_", "_")
    return said.partition(f"## {title}\n")[2].partition("\n## ")[0] if title else said
