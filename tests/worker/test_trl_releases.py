"""Releases of TRL from 0.14 on: what each takes, and that each is asked as it means to be asked.

A mistake of the adapter would show as a divergence that is not in the table; every one that is has been mended by
TRL since.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from cases.case import Case
from cases.descriptions import Advantage, Delta, Description, Importance, Layout, OffPolicyMask, Ratio, Row
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from cases.split import Mode, Split
from harness.asking import Contestant
from harness.client import TargetUnavailable, WorkerClient
from harness.releases.overlay import overlay_of
from reports.records import Verdict

_ROWS: Final = (
    Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    Row(Layout.FULL, 4, (Ratio.FAR_ABOVE, Ratio.INSIDE), advantage=Advantage.NEGATIVE),
    Row(Layout.HOLES, 3, (Ratio.BELOW_LOW, Ratio.ABOVE_HIGH), advantage=Advantage.NEGATIVE),
    Row(Layout.PREFIX, 3, (Ratio.ABOVE_HIGH,), advantage=Advantage.POSITIVE),
)
_EMPTY: Final = (Row(Layout.EMPTY), Row(Layout.EMPTY))

PLAIN: Final = Description(_ROWS, columns=4, seed=1)
ON_POLICY: Final = replace(PLAIN, on_policy=True)
CASES: Final = {
    "plain": ("old_logps", PLAIN),
    "on-policy": ("beta", ON_POLICY),
    "a completion without tokens": ("beta", replace(ON_POLICY, rows=(_EMPTY[0], *_ROWS[1:]))),
    "no token at all": ("beta", replace(ON_POLICY, rows=_EMPTY)),
    "accumulated": ("split", replace(ON_POLICY, split=Split(accumulation_steps=2, steps_per_generation=2))),
    "on two ranks": ("split", replace(ON_POLICY, split=Split(ranks=2))),
    "half of a generation": ("split", replace(ON_POLICY, split=Split(steps_per_generation=2))),
    "evaluated": (
        "split",
        replace(ON_POLICY, split=Split(accumulation_steps=2, steps_per_generation=2, mode=Mode.EVAL)),
    ),
    "token advantages": ("token_advantages", replace(PLAIN, token_advantages=True)),
    "delta": ("delta", replace(PLAIN, delta=Delta.BELOW)),
    "importance ratios": ("importance_ratio", replace(PLAIN, importance=Importance.PER_TOKEN)),
    "bias-corrected KL": ("k3_bias_corrected", replace(PLAIN, kl_estimator=KLEstimator.K3_BIAS_CORRECTED)),
    "off-policy mask": ("off_policy_mask", replace(PLAIN, off_policy_mask=OffPolicyMask.OLD)),
}
"""What is asked in every loss, level and beta that a release has, with the option that it takes."""

CLIPPED: Final = ("grpo", "bnpo", "dr_grpo")


@dataclass(frozen=True)
class Release:
    """What a release has, and which of `CASES` go wrong in it, for which losses."""

    name: str
    loss_types: tuple[str, ...]
    options: frozenset[str]
    wrong: dict[str, tuple[str, ...]] = field(default_factory=dict)
    levels: tuple[str, ...] = ("token", "sequence")


_FIRST: Final = frozenset({"beta", "split"})
_CLIPPING: Final = _FIRST | {"old_logps"}
_WITH_DELTA: Final = _CLIPPING | {"delta"}
_PER_TOKEN: Final = _WITH_DELTA | {"importance_ratio", "k3_bias_corrected", "token_advantages"}
_ALL: Final = _PER_TOKEN | {"off_policy_mask"}
_BY_TOKENS: Final = ("dapo", "cispo", "vespo")

RELEASES: Final = (
    # A mean over no token.
    Release(
        "0.14.0",
        ("grpo",),
        _FIRST,
        {"a completion without tokens": ("grpo",), "no token at all": ("grpo",)},
        ("token",),
    ),
    Release("0.16.1", ("bnpo",), _CLIPPING, {"no token at all": ("bnpo",)}, ("token",)),
    Release("0.18.2", CLIPPED, _WITH_DELTA, levels=("token",)),
    Release("0.20.0", CLIPPED, _WITH_DELTA),
    # Accumulation steps divide in evaluation too; dapo divides by the tokens of several steps.
    Release(
        "0.22.2",
        (*CLIPPED, "dapo"),
        _WITH_DELTA,
        {"evaluated": CLIPPED, "half of a generation": ("dapo",), "no token at all": ("dapo",)},
    ),
    # sapo takes one advantage a completion only.
    Release(
        "0.26.2",
        (*CLIPPED, "dapo", "cispo", "sapo"),
        _PER_TOKEN,
        {
            "evaluated": (*CLIPPED, "sapo"),
            "half of a generation": ("dapo", "cispo"),
            "no token at all": ("dapo", "cispo"),
            "token advantages": ("sapo",),
        },
    ),
    # luspo multiplies by a completion's length what it then averages over the padding as well.
    Release(
        "1.9.2",
        (*CLIPPED, "dapo", "cispo", "sapo", "luspo", "vespo"),
        _ALL,
        {name: ("luspo",) for name in CASES if name != "no token at all"},
    ),
    Release("1.14.2", (*CLIPPED, "dapo", "cispo", "sapo", "luspo", "vespo"), _ALL),
)


@contextmanager
def opened(release: Release) -> Iterator[Contestant]:
    """The release's trainer, in a process of its own."""
    try:
        overlay = overlay_of(f"trl=={release.name}", sys.executable, offline=True)
    except TargetUnavailable as missing:
        pytest.skip(f"`make test` fetches it: {missing}")
    with WorkerClient(sys.executable, overlay.target, path=overlay.folders) as client:
        yield Contestant(client, client.facts, "cpu")


def asked(one: Contestant, description: Description) -> Iterator[Case]:
    """One description in every loss, level and beta that the release has."""
    for level in one.facts.supports.levels:
        batch = realise(description, FLOAT32, Level(level))
        for loss_type in one.facts.supports.loss_types:
            # An estimator is none where there is no KL term.
            for beta in (0.0, 0.04) if description.kl_estimator is KLEstimator.K3 else (0.04,):
                case = case_for(description, batch, LossType(loss_type), Level(level), beta)
                yield one.under_conventions(case)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_a_release_is_asked_as_it_means_to_be(release: Release) -> None:
    """It has these losses and options, and goes wrong in these cases and no others."""
    wrong: dict[str, set[str]] = {}
    with opened(release) as one:
        supports = one.facts.supports
        assert one.facts.label == f"trl {release.name}"
        assert (supports.loss_types, supports.levels) == (release.loss_types, release.levels)
        assert set(supports.options) == release.options
        for name, (option, description) in CASES.items():
            for case in asked(one, description):
                loss_type = str(case.spec.loss_type)
                verdict = one.judged(case).verdict
                # delta is of clipped losses: others are asked without.
                if option != "delta" or case.spec.delta is not None:
                    assert (verdict is Verdict.UNSUPPORTED) is (option not in release.options), (name, loss_type)
                if verdict.fails:
                    wrong.setdefault(name, set()).add(loss_type)
    assert wrong == {name: set(loss_types) for name, loss_types in release.wrong.items()}
