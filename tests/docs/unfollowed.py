"""What of pages no test of the pages runs, each with the reason; commands are parsed all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.docs.pages import Command

_ARTIFACT: Final = "needs the artifact of a run in CI, unpacked"
_AS_PLUGIN: Final = "needs the package, which tests/worker/test_plugin_target.py installs"
_COMPILED: Final = "needs a compiled library, which tests/examples/test_cuda_grpo.py builds and judges"
_FAULTS: Final = "takes half a minute and more, and tests/faults does it"
_FETCHES: Final = (
    "fetches releases that no test needs, and takes minutes; tests/cli/test_matrix.py has a smaller one"
)
_HISTORY: Final = "needs a checkout with a history, which tests/cli/test_bisect.py has"
_INSTALLS: Final = "installs"
_FORK: Final = "my_fork.losses:grpo_loss"
_PARITY: Final = "compiles, or judges many cells, for a minute; tests/cli/test_parity.py has smaller ones"
_AGAINST: Final = "--against my_pkg.reference:grpo_loss --devices cuda"
_TRL: Final = "judges TRL in many cells for a minute, which tests/cli/test_trl.py does"
_OPERATOR: Final = "lossgate run './build/libgrpo.so#lossgate_example::grpo_loss' --loss-type grpo"

NOT_FOLLOWED: Final[Mapping[str, Mapping[str, str]]] = {
    "README.md": {
        "make run": _INSTALLS,
        "make test": "these are among the tests",
        ".venv/bin/lossgate run trl --python ../my-fork/.venv/bin/python": _TRL,
    },
    "docs/add-a-target.md": {
        "pip install ./examples/plugin": _INSTALLS,
        "lossgate smoke packed-losses": _AS_PLUGIN,
        "lossgate run packed-losses": _AS_PLUGIN,
    },
    "docs/ci.md": {
        f"lossgate explain run/cases/9a859633aa68.json {_FORK} --python .venv/bin/python": _ARTIFACT,
        f"lossgate replay run/cases/9a859633aa68.json {_FORK} --python .venv/bin/python": _ARTIFACT,
        "lossgate run trl==1.9.0 --python .venv/bin/python --offline": _TRL,
    },
    "docs/corpus.md": {"lossgate faults": _FAULTS},
    "docs/kernels.md": {
        f"{_OPERATOR} --device cuda --dtype float32,bfloat16": _COMPILED,
        f"{_OPERATOR} --device cpu --dtype float32,bfloat16": _COMPILED,
    },
    "docs/known-divergences.md": {"lossgate run trl --update-expectations": _TRL},
    "docs/large-batches.md": {"lossgate run trl --large": _TRL, "lossgate faults --large": _FAULTS},
    "docs/matrix.md": {
        "lossgate matrix trl 1.8.0..1.10.0 --loss-type dapo,luspo --jobs 2": _FETCHES,
        "lossgate matrix trl 0.17.0.. --jobs 2 --format markdown > matrix.md": _FETCHES,
        "lossgate bisect trl 0.22.0..1.16.0 --cell dapo,token,0": _FETCHES,
        "lossgate bisect my_pkg.losses:grpo_loss v1.2..main --git . --cell grpo,token,0.04": _HISTORY,
        "lossgate bisect trl v1.8.0..HEAD --git ../trl --cell dapo --python ../trl/.venv/bin/python": _HISTORY,
    },
    "docs/parity.md": {
        "lossgate parity trl --devices cpu,cuda --dtypes float32,bfloat16": _PARITY,
        (
            "lossgate parity my_pkg.losses:grpo_loss --loss-type grpo --compile eager,inductor --threads 1,all"
        ): _PARITY,
        f"lossgate parity ./libgrpo.so#ns::grpo_loss --loss-type grpo {_AGAINST}": _COMPILED,
        "benchmarks/gpu_parity.sh DIR": "a benchmark takes minutes",
    },
    "docs/pr-3395.md": {"lossgate run trl --loss-type dapo,dr_grpo --beta 0,0.04": _TRL},
    "docs/pytest.md": {
        "pipx install lossgate": _INSTALLS,
        "pip install --no-deps lossgate": _INSTALLS,
    },
    "docs/releases.md": {
        "lossgate run trl trl==1.9.0 liger==0.8.0": _TRL,
        "lossgate run trl==1.9.0 --offline": _TRL,
    },
    "docs/report.md": {
        "lossgate matrix --resume lossgate-runs/<matrix> --format html > matrix.html": _FETCHES,
    },
    "docs/targets.md": {
        "lossgate run ./build/libgrpo.so#my_ops::grpo_loss": _COMPILED,
        "lossgate run ./build/libgrpo.so#my_ops::grpo_loss --device cuda": _COMPILED,
    },
}
"""Commands by page."""

FRAGMENTS: Final[Mapping[str, str]] = {
    "docs/pytest.md": "tests of a project; tests/plugin runs those of examples/pytest",
}
"""Pages whose blocks of Python are compiled and not run."""

SHOWN: Final[Mapping[str, str]] = {
    "docs/command-line.md": "a row of the README, which test_pages.py compares",
    "docs/corpus.md": "a line of a full run of TRL",
    "docs/large-batches.md": "two lines of a case of 65,520 tokens",
    "docs/matrix.md": "a folder, and the output of a bisection that fetches releases",
    "docs/pytest.md": "what pytest prints, which tests/plugin compares",
    "docs/reproducers.md": "a folder",
    "docs/run-on-disk.md": "a folder",
}
"""Pages with blocks of text, each with what they show."""

_PAGES: Final = {
    "examples/cuda_grpo/README.md": _COMPILED,
    "benchmarks/README.md": "a benchmark takes minutes",
}


def reason(command: Command) -> str | None:
    """Why a command is not run; None where it is."""
    return _PAGES.get(command.page) or NOT_FOLLOWED.get(command.page, {}).get(command.bare)
