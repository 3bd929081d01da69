"""`lossgate reproduce`, and the scripts that a run leaves: a user's own functions, shown without lossgate."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.conftest import COMMAND, EXAMPLE, Lossgate
from tests.worker.operators import COMPILER, built

CELL = ("--loss-type", "bnpo", "--level", "token", "--beta", "0", "--dtype", "float32", "--examples", "1", "-q")
RUFF = Path(sys.executable).with_name("ruff")

LOSSES = """
    import os

    import torch

    def right(log_probs, old_log_probs, token_advantages, response_mask, cliprange, batch_num_tokens):
        ratio = torch.exp(log_probs - (log_probs.detach() if old_log_probs is None else old_log_probs))
        free = ratio * token_advantages
        clipped = ratio.clamp(1 - cliprange, 1 + cliprange) * token_advantages
        return -torch.where(response_mask, torch.min(free, clipped), 0.0).sum() / batch_num_tokens.clamp(min=1)

    def doubled(log_probs, old_log_probs, token_advantages, response_mask, cliprange, batch_num_tokens):
        return {"loss": 2 * right(**locals()), "metrics": {}}

    def averaged(log_probs, advantages, response_mask):
        free = torch.exp(log_probs - log_probs.detach()) * advantages[:, None]
        means = torch.where(response_mask, free, 0.0).sum(1) / response_mask.sum(1).clamp(min=1)
        return -means.mean()

    def random(log_probs, old_log_probs, token_advantages, response_mask, cliprange, batch_num_tokens):
        return right(**locals()) * (1 + torch.rand(()) / 100), {}

    def own_gradient(log_probs, token_advantages, response_mask):
        n = response_mask.sum().clamp(min=1)
        gradient = torch.where(response_mask, -token_advantages, 0.0) / n
        return gradient.sum().detach(), 2 * gradient

    def raising(logps, advantages, mask):
        raise ValueError('no "numbers" in \\\\here')

    def dying(logps, advantages, mask):
        os.abort()

    def writing(logps, advantages, mask):
        advantages *= 2
        return logps.sum()
"""


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the printed formula as grpo, with its module beside it."""
    folder = tmp_path_factory.mktemp("failed")
    shutil.copy(EXAMPLE, folder / "printed.py")
    cell = ["grpo" if word == "bnpo" else word for word in CELL]
    subprocess.run(
        [COMMAND, "run", "printed:loss", *cell, "--out", "run"], cwd=folder, check=False, capture_output=True
    )
    return folder


def only_script(run: Path) -> Path:
    """The one script of a run."""
    (script,) = (run / "reproducers").iterdir()
    return script


def python(script: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as a maintainer does, in the folder of the module, where nothing of ours may be imported."""
    check = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    ours = "{'cases', 'harness', 'oracles', 'reports'}"
    guard = f"import atexit, os; atexit.register(lambda: {ours} & set(sys.modules) and os._exit(99))"
    return subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; {guard}; {check}", str(script)],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_script_shows_the_fault_and_its_fix(failed_run: Path, tmp_path: Path) -> None:
    """Exit 1 with expected and got while the fault is there, 0 once the function is mended."""
    folder = Path(shutil.copytree(failed_run, tmp_path / "copy"))
    script = only_script(folder / "run")
    result = python(script, folder)
    assert result.returncode == 1, result.stderr
    assert "loss: expected " in result.stdout
    assert "(allowed by rounding: " in result.stdout
    text = (folder / "printed.py").read_text()
    wrong = "(token_losses * mask).sum() / mask.sum().clamp(min=1)"
    right = "((token_losses * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()"
    assert wrong in text
    (folder / "printed.py").write_text(text.replace(wrong, right))
    result = python(script, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 of " in result.stdout


def test_where_the_module_is_missing_one_sentence_says_so(failed_run: Path, tmp_path: Path) -> None:
    """Exit 2, and no traceback."""
    result = python(only_script(failed_run / "run"), tmp_path)
    assert result.returncode == 2
    assert result.stderr == "This needs printed: No module named 'printed'\n"


def test_a_script_reads_well(failed_run: Path) -> None:
    """It says what is wrong in the run's own words, names no part of lossgate, and passes a linter."""
    script = only_script(failed_run / "run")
    text = script.read_text()
    assert text.startswith('"""printed:loss as grpo: loss and gradient differ from the formula.\n')
    assert "What differs: computes bnpo." in text
    assert "L = 1/B sum_i 1/n_i sum_t P_it" in text
    assert "import lossgate" not in text
    assert max(map(len, text.splitlines())) <= 100
    linted = subprocess.run([RUFF, "check", "--isolated", script], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    assert (
        subprocess.run(
            [RUFF, "format", "--isolated", "--line-length", "100", "--check", script],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )


def test_the_verb_writes_what_the_run_wrote(failed_run: Path) -> None:
    """A case of a run, by its file: printed, or written where --out says."""
    script = only_script(failed_run / "run")
    case = failed_run / "run" / "cases" / f"{script.stem}.json"
    printed = subprocess.run(
        [COMMAND, "reproduce", case], cwd=failed_run, capture_output=True, text=True, check=False
    )
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == script.read_text()
    written = subprocess.run(
        [COMMAND, "reproduce", case, "printed:loss", "--out", "mine.py"], cwd=failed_run, check=False
    )
    assert written.returncode == 0
    assert (failed_run / "mine.py").read_text() == script.read_text()


@pytest.fixture
def losses(folder: Path) -> Path:
    """The user's folder with `losses.py` in it."""
    (folder / "losses.py").write_text(dedent(LOSSES))
    return folder


# How the script of a function ends, and what it says.
ENDINGS = {
    "doubled": (1, "loss = losses.doubled(\n    log_probs=logps,\n    old_log_probs=", "loss: expected "),
    "own_gradient": (1, "loss, gradient = losses.own_gradient(", "gradient at completion"),
    "raising": (1, 'it raised ValueError: no "numbers" in \\\\here.', 'ValueError: no "numbers" in \\here'),
    "dying": (-6, "its process died of SIGABRT (Aborted).", ""),
    "writing": (1, "it changed its input 'advantages' in place.", "expected that advantages is left as it is"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_way_to_fail_has_a_script(name: str, lossgate: Lossgate, losses: Path) -> None:
    """Arguments by the names the function has, whatever it returns; exceptions and crashes stay what they are.

    A run asks nothing more of a target that dies: its script is written on demand.
    """
    lossgate("run", f"losses:{name}", *CELL, "--out", "run")
    if name == "dying":
        assert not (losses / "run" / "reproducers").exists()
        case = next((losses / "run" / "cases").iterdir())
        written_to = lossgate("reproduce", case, f"losses:{name}", "--out", "dying_again.py")
        assert written_to.returncode == 0, written_to.stderr
        script = losses / "dying_again.py"
    else:
        script = only_script(losses / "run")
    code, written, said = ENDINGS[name]
    assert written in script.read_text()
    result = python(script, losses)
    assert result.returncode == code, result.stdout + result.stderr
    assert said in result.stdout + result.stderr


@pytest.mark.usefixtures("losses")
def test_answers_that_differ_from_call_to_call(lossgate: Lossgate, folder: Path, failed_run: Path) -> None:
    """The script asks again and again, and shows from where to where the answers go."""
    script = only_script(failed_run / "run")
    case = failed_run / "run" / "cases" / f"{script.stem}.json"
    result = lossgate("reproduce", case, "losses:random", "--out", "random.py")
    assert result.returncode == 0, result.stderr
    shown = python(folder / "random.py", folder)
    assert shown.returncode == 1, shown.stderr
    assert "differ from call to call" in shown.stdout
    (folder / "losses.py").write_text((folder / "losses.py").read_text().replace("/ 100), {}", "* 0), {}"))
    assert python(folder / "random.py", folder).returncode == 0


@pytest.mark.usefixtures("losses")
def test_a_broken_promise_about_padding_has_its_numbers(lossgate: Lossgate, folder: Path) -> None:
    """Where NaN at masked positions must not matter and does, the script has NaN there."""
    (folder / "lossgate.toml").write_text(
        '[target.promising]\nname = "printed:loss"\nconventions = { padding = ["finite", "nan"] }\n'
    )
    lossgate("run", "promising", *CELL, "--out", "run")
    script = only_script(folder / "run")
    assert "nan values of logps at masked positions change the answer" in " ".join(script.read_text().split())
    assert "torch.nan" in script.read_text()
    result = python(script, folder)
    assert result.returncode == 1
    assert "got nan" in result.stdout


@pytest.mark.usefixtures("losses")
def test_a_case_that_is_not_failed_has_no_script(lossgate: Lossgate, failed_run: Path) -> None:
    """Nor has a part of lossgate: each is one sentence, with exit 2 and nothing on stdout."""
    script = only_script(failed_run / "run")
    case = failed_run / "run" / "cases" / f"{script.stem}.json"
    sentences = {
        "fault:no_clip": "fault:no_clip is a part of lossgate, without which it cannot be called",
        "losses:averaged": f"losses:averaged does not fail case {script.stem}: there is nothing to reproduce",
    }
    for target, sentence in sentences.items():
        result = lossgate("reproduce", case, target)
        assert result.returncode == 2
        assert sentence in result.stderr
        assert result.stdout == ""


def test_several_targets_have_scripts_of_their_own(lossgate: Lossgate, losses: Path) -> None:
    """The same case may be the witness of both."""
    targets = ("losses:doubled", "losses:own_gradient", "losses:right")
    lossgate("run", *targets, *CELL, "--out", "run")
    names = sorted(path.name.partition("-")[2] for path in (losses / "run" / "reproducers").iterdir())
    assert names == ["losses-doubled.py", "losses-own-gradient.py"]


TRAINER = """
    from dataclasses import dataclass

    from trl import GRPOConfig, GRPOTrainer


    @dataclass
    class OwnConfig(GRPOConfig):
        scale: float = 2.0


    class Scaling(GRPOTrainer):
        def __init__(self, model, reward_funcs, args: OwnConfig | None = None, **others):
            super().__init__(model, reward_funcs, args, **others)

        def _compute_loss(self, model, inputs):
            return self.args.scale * super()._compute_loss(model, inputs)
"""


def test_a_trainer_class_has_its_own_configuration(lossgate: Lossgate, folder: Path) -> None:
    """The script makes the trainer as its constructor says, and ends otherwise once the trainer is mended."""
    (folder / "trainers.py").write_text(dedent(TRAINER))
    lossgate("run", "trainers:Scaling", *CELL, "--out", "run")
    script = only_script(folder / "run")
    result = python(script, folder)
    assert result.returncode == 1, result.stderr
    assert "loss: expected " in result.stdout
    (folder / "trainers.py").write_text(dedent(TRAINER).replace("2.0", "1.0"))
    assert python(script, folder).returncode == 0


@pytest.mark.skipif(COMPILER is None, reason="building an operator needs g++")
def test_an_operator_is_called_through_torch(lossgate: Lossgate, folder: Path) -> None:
    """Its arguments are of the types of its schema; the gradient is the one it returns."""
    shutil.copy(built(), folder / "libops.so")
    cell = ["grpo" if word == "bnpo" else word for word in CELL]
    lossgate("run", "./libops.so#lossgate_test::fused", *cell, "--out", "run")
    script = only_script(folder / "run")
    assert "loss, gradient = torch.ops.lossgate_test.fused(" in script.read_text()
    assert "num_items_in_batch=int(mask.sum())," in script.read_text()
    result = python(script, folder)
    assert result.returncode == 1, result.stderr
    (folder / "libops.so").unlink()
    missing = python(script, folder)
    assert missing.returncode == 2
    assert missing.stderr.startswith("This needs ./libops.so: ")
