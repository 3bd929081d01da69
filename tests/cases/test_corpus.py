"""The corpus: every case shows the public fault that it is for, and a correct implementation passes it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from cases.case import Case
from cases.corpus.entries import ENTRIES, judged
from cases.corpus.entry import Entry
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from harness.asking import Contestant
from harness.engine import execute
from harness.events import CaseJudged, Event, RunFinished
from harness.generation import corpus_names, schedule
from harness.judge import bits_equal
from harness.padding import garbage
from harness.plan import Plan
from tests.faults.inside import BY_NAME, contestant
from tests.worker.fetched import opened

ROOT = Path(__file__).parents[2]
WITH_CASES = [entry for entry in ENTRIES if entry.description is not None]
BEFORE_THE_LOSS = [entry for entry in ENTRIES if entry.description is None]

every_entry = pytest.mark.parametrize("entry", WITH_CASES, ids=lambda entry: entry.name)


def shows(entry: Entry, case: Case, one: Contestant) -> bool:
    """Whether a case shows the fault of an entry in a target."""
    if entry.masked is None:
        return one.judged(case).verdict.fails
    clean = one.client.ask(case)
    dirty = next(dirty for dirty in garbage(case) if (dirty.line, dirty.tensor) == entry.masked)
    return not bits_equal(clean, one.client.ask(case, one.device, {dirty.tensor: dirty.values}))


def passes(entry: Entry, case: Case) -> bool:
    """Whether the correct implementation gets a case right, in the one way in which its fault is wrong."""
    correct = "none" if entry.masked is None else "padding_blank"
    return not shows(entry, case, contestant(BY_NAME[correct]))


@every_entry
def test_the_stored_case_shows_its_fault(entry: Entry) -> None:
    """It is small and of a loss that has the fault; the seeded fault fails it, `fault:none` does not."""
    case = entry.pinned
    assert case.batch.dtype == FLOAT32
    assert case.batch.mask.size <= 4
    assert case.spec.loss_type in entry.loss_types
    assert case.spec.importance_sampling_level in entry.levels
    assert shows(entry, case, contestant(BY_NAME[entry.fault]))
    assert passes(entry, case)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@every_entry
def test_the_description_shows_it_in_every_cell(entry: Entry, dtype: DType) -> None:
    """Realised as a run does, for all losses and levels that have the fault."""
    assert entry.description is not None
    fault = contestant(BY_NAME[entry.fault])
    missed = []
    for level, loss_type in product(entry.levels, entry.loss_types):
        batch = realise(entry.description, dtype, level)
        case = case_for(entry.description, batch, loss_type, level, 0.04)
        if not shows(entry, case, fault):
            missed.append((loss_type, level))
        assert passes(entry, case), (loss_type, level)
    assert missed == []


RELEASES = {
    "trl==1.9.0": {"generation_tokens", "luspo_unmasked"},
    "liger==0.8.5": {"luspo_unmasked"},
    # The mean over a completion without tokens is NaN at either level.
    "verl==0.6.0": {"dr_grpo_without_rows", "empty_row", "empty_row_ratio"},
    "verl==0.9.1": {"no_tokens"},
    "openrlhf==0.10.2": {"empty_row", "empty_row_ratio", "no_tokens"},
    "unsloth==2026.8.13": {"luspo_unmasked", "no_tokens"},
}
"""Which stored cases real releases fail: those of the faults that they are said to have, and no others."""


@pytest.mark.parametrize(("release", "failing"), RELEASES.items(), ids=RELEASES)
def test_the_stored_cases_show_the_faults_of_real_releases(release: str, failing: set[str]) -> None:
    """As the entries say; what a release does not support is no fault of its."""
    with opened(release) as one:
        found = {
            entry.name
            for entry in WITH_CASES
            if entry.masked is None and one.judged(one.under_conventions(entry.pinned)).verdict.fails
        }
    assert found == failing


def test_entries_say_what_they_are_for() -> None:
    """A name of its own, one sentence, at least one link and one release; a stage where no case can show it."""
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES) >= 14
    for entry in ENTRIES:
        assert entry.about, entry.name
        assert not entry.about.endswith("."), entry.name
        assert entry.links, entry.name
        assert entry.shows, entry.name
        assert all(link.startswith("https://github.com/") for link in entry.links), entry.name
    for entry in BEFORE_THE_LOSS:
        assert entry.stage != "loss", entry.name
        assert not entry.fault, entry.name
        with pytest.raises(ValueError, match=f"its fault lies in the stage of {entry.stage}"):
            _ = entry.pinned


def test_every_stored_case_is_of_an_entry() -> None:
    """And the page on the corpus has every entry, with its links and the releases that have it."""
    stored = {path.stem for path in (ROOT / "cases" / "corpus" / "pinned").iterdir()}
    assert stored == {entry.name for entry in WITH_CASES}
    page = " ".join((ROOT / "docs" / "corpus.md").read_text().split())
    for entry in ENTRIES:
        for text in (f"`{entry.name}`", entry.about, *entry.links, *entry.shows):
            assert text in page, (entry.name, text)


def test_the_corpus_is_the_first_phase_of_every_run() -> None:
    """Its cases come first and under their names, whatever the seed; what no case can hold is left to padding."""
    names = [entry.name for entry, _ in judged()]
    assert {entry.name for entry in WITH_CASES if entry.masked is None} == set(names)
    for seed in (0, 7):
        first = schedule(1, seed)[: len(names) + 1]
        assert [entry.phase for entry in first] == ["corpus"] * len(names) + ["regions"]
        assert [corpus_names().get(entry.number) for entry in first] == [*names, None]


def test_a_run_names_the_corpus_case_that_is_a_witness() -> None:
    """Also where it was made small; its record has the phase of what it was shrunk from only by its number."""
    plan = Plan.of(["fault:seq_no_min1"], loss_types="grpo", levels="sequence", betas="0", dtypes="float32",
                   examples=1)  # fmt: skip
    events: list[Event] = []
    execute(plan, events.append)
    records = [event.record for event in events if isinstance(event, CaseJudged)]
    shrunk = next(record for record in records if record.phase == "shrunk")
    facts = next(event.facts for event in events if isinstance(event, RunFinished))
    assert facts["corpus"] == {shrunk.case_id: "no_tokens"}
