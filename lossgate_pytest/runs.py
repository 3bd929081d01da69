"""The runs of a session: each question is put to lossgate once, however many tests and processes ask it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from lossgate_pytest.command import Command, NotRun
from lossgate_pytest.question import Cell, Question
from lossgate_pytest.result import CellResult, Run


class Runs:
    """Runs in a folder that all processes of a session share; `command` makes them."""

    def __init__(self, command: Command, shared: Path) -> None:
        self.command = command
        self._shared = shared
        self._known: dict[Question, Run] = {}
        self._tables: dict[tuple[Path, str], tuple[Cell, str]] = {}

    def of(self, question: Question) -> Run:
        """The run that answers a question; the process that asks first makes it, and others wait for it.

        Raises `NotRun`.
        """
        if question not in self._known:
            self._known[question] = self._made(question)
        return self._known[question]

    def table(self, run: Run, result: CellResult) -> tuple[Cell, str]:
        """The smallest case of a cell token by token, or of the first that this process asked for with the same
        thing wrong; that cell, and "" where there is no table.
        """
        key = run.folder, result.signature
        if key not in self._tables:
            table = (
                self.command.explain(result.witness, run.target, run.facts, result.device)
                if result.witness
                else ""
            )
            self._tables[key] = result.cell, table
        return self._tables[key]

    def _made(self, question: Question) -> Run:
        asked = json.dumps([question.target, question.options, self.command.path])
        place = self._shared / f"lossgate-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
        place.mkdir(exist_ok=True)
        out, answer = place / "run", place / "answer.json"
        with open(place / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not answer.exists():
                # One whose process was killed has left its beginning.
                shutil.rmtree(out, ignore_errors=True)
                told: dict[str, Any]
                try:
                    told = {"report": self.command.judge(question.target, question.options, out)}
                except NotRun as error:
                    told = {"refused": str(error)}
                unfinished = place / "answer.part"
                unfinished.write_text(json.dumps(told))
                os.replace(unfinished, answer)
        told = json.loads(answer.read_text())
        if "refused" in told:
            raise NotRun(told["refused"])
        run = Run(question.target, out, told["report"])
        if run.problem:
            raise NotRun(f"{run.problem}\n  run: {out}")
        return run
