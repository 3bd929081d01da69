from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from cases.case import Case
from reports.records import NOT_COMPARED, Divergence, Record, Verdict
from reports.run import Run
from reports.schema import ROWS
from reports.store import RunStoreError, RunWriter

MakeRecord = Callable[..., Record]


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def finished(path: Path, records: list[Record]) -> Run:
    writer = RunWriter.create(path, {"seed": 7})
    for number, record in enumerate(records):
        writer.add(record, seconds=float(number))
    writer.finish({}, complete=True)
    return Run.load(path)


def test_records_come_back_as_they_were(tmp_path: Path, record: MakeRecord) -> None:
    """Floats to the last bit, infinities, None and text that is awkward to store."""
    written = [
        record(loss=Divergence(0.1 + 0.2, 5e-324, math.inf), gradient=Divergence(-0.0, 1e308, 2.0**-60)),
        record(verdict=Verdict.DIVERGES, message='a "b" | c\nd\té\x00', beta=0.1),
        record(repeated=True, bits_equal=True),
        record(repeated=True, bits_equal=False),
        record(gradient_row=None, gradient_column=None, regions=()),
    ]
    assert list(finished(tmp_path / "run", written).records()) == written


def test_what_was_not_compared_comes_back_as_nan(tmp_path: Path, record: MakeRecord) -> None:
    """NaN is kept as NaN: it is neither null nor 0."""
    run = finished(tmp_path / "run", [record(verdict=Verdict.CRASH)])
    (read,) = run.records()
    for divergence in (read.loss, read.gradient):
        assert math.isnan(divergence.absolute)
        assert math.isnan(divergence.ulps)
        assert math.isnan(divergence.ratio)
    assert replace(read, loss=NOT_COMPARED, gradient=NOT_COMPARED) == record(verdict=Verdict.CRASH)


def test_text_that_is_no_unicode_does_not_stop_the_run(tmp_path: Path, record: MakeRecord) -> None:
    """What a target printed may hold any bytes."""
    run = finished(tmp_path / "run", [record(message="bad \udcff byte")])
    assert run.rows["message"].tolist() == ["bad \\udcff byte"]


def test_a_folder_named_like_a_column_does_not_become_one(tmp_path: Path, record: MakeRecord) -> None:
    """Arrow takes `seed=3/` in a path for a column; a run's columns are those of the schema."""
    run = finished(tmp_path / "seed=3" / "run", [record()])
    assert list(run.rows.columns) == ROWS.names


def test_facts_are_written_at_once_and_completed_last(tmp_path: Path) -> None:
    """run.json exists, and says incomplete, before the first record; finishing adds facts."""
    path = tmp_path / "parents" / "run"
    writer = RunWriter.create(path, {"seed": 7, "complete": True, "records": 3, "format": "other"})
    assert json.loads((path / "run.json").read_text()) == {
        "format": "lossgate-run/1",
        "complete": False,
        "seed": 7,
    }
    writer.finish({"exit_code": 0}, complete=True)
    run = Run.load(path)
    assert run.complete
    assert run.facts["seed"] == 7
    assert run.facts["exit_code"] == 0
    assert run.facts["records"] == 0


def test_a_run_without_parts_has_the_columns(tmp_path: Path) -> None:
    """A run that was stopped before its first part is an empty run, with columns of the right types."""
    RunWriter.create(tmp_path / "run", {})
    run = Run.load(tmp_path / "run")
    assert not run.complete
    assert list(run.rows.columns) == ROWS.names
    assert run.rows.empty
    assert list(run.records()) == []


def test_parts_are_flushed_by_number_and_by_time(tmp_path: Path, record: MakeRecord) -> None:
    """512 records make a part, and so does the first record after 2 seconds."""
    clock = Clock()
    writer = RunWriter.create(tmp_path / "run", {}, clock=clock)
    rows = tmp_path / "run" / "rows"
    for number in range(511):
        writer.add(record(description=number), seconds=0.0)
    assert not list(rows.iterdir())
    writer.add(record(description=511), seconds=0.0)
    assert [part.name for part in rows.iterdir()] == ["part-00000.parquet"]
    writer.add(record(description=512), seconds=0.0)
    clock.now = 1.9
    writer.add(record(description=513), seconds=0.0)
    assert len(list(rows.iterdir())) == 1
    clock.now = 2.0
    writer.add(record(description=514), seconds=0.0)
    assert len(list(rows.iterdir())) == 2
    assert Run.load(tmp_path / "run").rows["description"].tolist() == list(range(515))


def test_rows_depend_on_the_records_only(tmp_path: Path, record: MakeRecord) -> None:
    """Same records, same bytes, however long they took; timings lie beside them, in the same order."""
    contents = []
    for name, pace in (("one", 0.25), ("two", 3.0)):
        writer = RunWriter.create(tmp_path / name, {}, clock=Clock())
        for number in range(3):
            writer.add(record(description=number, case_id=f"case {number}"), seconds=pace * number)
        writer.finish({}, complete=True)
        contents.append((tmp_path / name / "rows" / "part-00000.parquet").read_bytes())
        timings = Run.load(tmp_path / name).timings()
        assert timings["seconds"].tolist() == [0.0, pace, 2 * pace]
        assert timings["case_id"].tolist() == ["case 0", "case 1", "case 2"]
    assert contents[0] == contents[1]


def test_an_abandoned_run_is_readable(tmp_path: Path, record: MakeRecord) -> None:
    """What was flushed is there, what was not is lost, and the run is not complete."""
    writer = RunWriter.create(tmp_path / "run", {"seed": 7}, clock=Clock())
    for number in range(600):
        writer.add(record(description=number), seconds=0.0)
    del writer
    run = Run.load(tmp_path / "run")
    assert not run.complete
    assert run.rows["description"].tolist() == list(range(512))


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from conftest import make_record
from reports.store import RunWriter
writer = RunWriter.create(Path(sys.argv[1]), {"seed": 7}, clock=lambda: 0.0)
for number in range(1100):
    writer.add(make_record(description=number), seconds=0.0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_run_is_readable(tmp_path: Path) -> None:
    """The same when the process dies without a chance to clean up."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run"), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    run = Run.load(tmp_path / "run")
    assert not run.complete
    assert run.rows["description"].tolist() == list(range(1024))


def test_remains_of_a_write_cut_short_are_not_read(tmp_path: Path, record: MakeRecord) -> None:
    """A part killed while it was written has another name; timings without their rows are left out."""
    run = finished(tmp_path / "run", [record()])
    (run.path / "rows" / ".part-00001.parquet.tmp").write_bytes(b"PAR1")
    part = run.path / "timings" / "part-00000.parquet"
    (run.path / "timings" / "part-00001.parquet").write_bytes(part.read_bytes())
    again = Run.load(run.path)
    assert len(again.rows) == 1
    assert len(again.timings()) == 1


def test_cases_are_kept_under_their_id(tmp_path: Path, case: Case) -> None:
    """Saving is idempotent, and what is read back is the case."""
    writer = RunWriter.create(tmp_path / "run", {})
    path = writer.save_case(case)
    assert path == tmp_path / "run" / "cases" / f"{case.id}.json"
    assert writer.save_case(case) == path
    assert len(list(path.parent.iterdir())) == 1
    assert Run.load(tmp_path / "run").case(case.id) == case


def test_a_case_that_is_not_there_or_damaged_is_said(tmp_path: Path, case: Case) -> None:
    """An id may come from a user: unknown ones, and paths, are refused with a sentence."""
    path = RunWriter.create(tmp_path / "run", {}).save_case(case)
    run = Run.load(tmp_path / "run")
    for unknown in ("123456789abc", "../run", str(path)):
        with pytest.raises(RunStoreError, match=r"holds no case .*only witnesses and failing cases"):
            run.case(unknown)
    path.with_name("renamed.json").write_text(case.to_json())
    with pytest.raises(RunStoreError, match=f"rename the file to {case.id}.json"):
        run.case("renamed")
    path.write_text(case.to_json()[:40])
    with pytest.raises(RunStoreError, match="cut short"):
        run.case(case.id)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Nobody's files are mixed with a run's, least of all another run's."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunStoreError, match=r"the folder is not empty; give one that is new or empty"):
        RunWriter.create(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    RunWriter.create(tmp_path / "run", {})
    with pytest.raises(RunStoreError, match="not empty"):
        RunWriter.create(tmp_path / "run", {})


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    """A folder made beforehand, as CI does for artifacts, is fine."""
    RunWriter.create(tmp_path, {})
    assert not Run.load(tmp_path).complete


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    """Neither the run's folder nor one of its parents can be a file."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunStoreError, match="a file is in the way; give another path"):
            RunWriter.create(path, {})


def test_a_path_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """The system's reason is in the sentence."""
    with pytest.raises(RunStoreError, match=r"cannot start a run in .*; give a path that can be written"):
        RunWriter.create(tmp_path / ("x" * 300), {})


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    """A read-only place is said to be one."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RunStoreError, match="give a path that can be written"):
            RunWriter.create(tmp_path / "run", {})
    finally:
        tmp_path.chmod(0o700)


def test_facts_that_are_no_json_leave_nothing_behind(tmp_path: Path) -> None:
    """A mistake of the caller shows before the folder is made."""
    with pytest.raises(TypeError):
        RunWriter.create(tmp_path / "run", {"path": tmp_path})
    with pytest.raises(ValueError, match="JSON"):
        RunWriter.create(tmp_path / "run", {"limit": math.nan})
    assert not (tmp_path / "run").exists()


def test_a_folder_that_vanishes_is_said(tmp_path: Path, record: MakeRecord) -> None:
    """Failing to write is an error with a sentence, and it names the file."""
    writer = RunWriter.create(tmp_path / "run", {})
    (tmp_path / "run" / "timings").rmdir()
    writer.add(record(), seconds=0.0)
    with pytest.raises(RunStoreError, match=r"cannot write .*part-00000.parquet: .*; what was written before"):
        writer.finish({}, complete=True)
    (tmp_path / "run" / "timings").mkdir()
    writer.finish({}, complete=True)
    assert len(Run.load(tmp_path / "run").rows) == 1


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """Missing, empty, foreign and truncated folders each give their own sentence."""
    with pytest.raises(RunStoreError, match="is not a run: there is no such folder; give a folder"):
        Run.load(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunStoreError, match="is not a run"):
        Run.load(tmp_path / "file")
    with pytest.raises(RunStoreError, match=r"is not a run: there is no run.json in it"):
        Run.load(tmp_path)
    described = tmp_path / "run.json"
    for broken in (b"", b'{"format": "lossgate-run/1", "compl', b"\xff\xfe"):
        described.write_bytes(broken)
        with pytest.raises(RunStoreError, match="empty, cut short or no JSON; restore it or run again"):
            Run.load(tmp_path)
    for foreign in ({"format": "lossgate-run/2"}, {"name": "package"}, []):
        described.write_text(json.dumps(foreign))
        with pytest.raises(RunStoreError, match="this lossgate reads 'lossgate-run/1'"):
            Run.load(tmp_path)
    described.unlink()
    described.mkdir()
    with pytest.raises(RunStoreError, match="make it readable"):
        Run.load(tmp_path)


def test_damaged_parts_are_refused(tmp_path: Path, record: MakeRecord) -> None:
    """Rows that are missing or cut short are never taken for a shorter run."""
    writer = RunWriter.create(tmp_path / "run", {}, clock=Clock())
    for number in range(3 * 512):
        writer.add(record(description=number), seconds=0.0)
    writer.finish({}, complete=True)
    parts = sorted((tmp_path / "run" / "rows").iterdir())
    last = parts[2].read_bytes()

    parts[2].write_bytes(last[: len(last) // 2])
    with pytest.raises(RunStoreError, match=r"cannot read .*part-00002.parquet"):
        Run.load(tmp_path / "run")
    parts[2].unlink()
    with pytest.raises(RunStoreError, match=r"run.json counts 1536, rows/ holds 1024"):
        Run.load(tmp_path / "run")
    parts[2].write_bytes(last)
    parts[1].unlink()
    with pytest.raises(RunStoreError, match=r"part-00001.parquet is missing"):
        Run.load(tmp_path / "run")


@pytest.mark.parametrize("version", ["1", "2"])
def test_rows_of_another_schema_are_refused(tmp_path: Path, record: MakeRecord, version: str) -> None:
    """Neither other columns nor, with the same columns, another version is read as if it were ours."""
    run = finished(tmp_path / "run", [record()])
    part = run.path / "rows" / "part-00000.parquet"
    table = pq.ParquetFile(part).read().replace_schema_metadata({"lossgate_schema_version": version})
    pq.write_table(table.drop_columns(["phase"]) if version == "1" else table, part)
    with pytest.raises(RunStoreError, match=f"its schema version is {version}, this lossgate reads 1"):
        Run.load(run.path)


def test_pandas_alone_reads_the_rows(tmp_path: Path, record: MakeRecord) -> None:
    """The files are ordinary parquet: no lossgate is needed to read them."""
    run = finished(tmp_path / "run", [record(), record(verdict=Verdict.DIVERGES)])
    frame = pd.read_parquet(run.path / "rows")
    assert frame["verdict"].tolist() == ["conforms", "diverges"]
    assert frame["regions"].map(list).tolist() == [["inside", "full_row"]] * 2
