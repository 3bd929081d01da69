from __future__ import annotations

import itertools

import pytest

from reports.records import SEVERITY, Verdict, worst


def test_severity_orders_every_judged_verdict_once() -> None:
    """A new verdict cannot be forgotten in the order: only `unsupported` stands outside it."""
    assert len(SEVERITY) == len(set(SEVERITY))
    assert set(Verdict) - set(SEVERITY) == {Verdict.UNSUPPORTED}


def test_a_cell_takes_the_worst_of_its_cases() -> None:
    """The worse of any two wins, whichever comes first."""
    for worse, better in itertools.combinations(SEVERITY, 2):
        assert worst([better, worse, better]) is worse
        assert worst([worse, better]) is worse


@pytest.mark.parametrize("verdict", SEVERITY)
def test_unsupported_counts_only_alone(verdict: Verdict) -> None:
    """One refused option neither hides what was judged nor makes it better."""
    assert worst([Verdict.UNSUPPORTED, verdict]) is verdict
    assert worst([Verdict.UNSUPPORTED, Verdict.UNSUPPORTED]) is Verdict.UNSUPPORTED


def test_no_verdicts_are_an_error() -> None:
    """A cell without cases has no verdict: silence is not `conforms`."""
    with pytest.raises(ValueError, match="at least one"):
        worst([])


def test_failing_verdicts_are_those_a_gate_stops_at() -> None:
    """Overflow and refusal are shown, not failed."""
    assert {verdict for verdict in Verdict if verdict.fails} == {
        Verdict.DIVERGES,
        Verdict.CRASH,
        Verdict.TIMEOUT,
        Verdict.ERROR,
        Verdict.NONDETERMINISTIC,
    }


def test_every_verdict_says_what_it_means() -> None:
    """Each has a sentence of its own for the user."""
    sentences = {verdict.about for verdict in Verdict}
    assert len(sentences) == len(Verdict)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)
