"""Releases: fetched once, whole or not at all, checked at each use, and never put into an interpreter."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version
from wheels import make_wheel, served

from harness.outcome import TargetUnavailable
from harness.releases.cache import Cache
from harness.releases.interpreter import Interpreter
from harness.releases.libraries import LIBRARIES
from harness.releases.overlay import Overlay, overlay_of
from harness.releases.span import Span

COMMAND = Path(sys.executable).with_name("lossgate")
RELEASE = "liger==0.8.0"
FILES = {"liger_kernel/__init__.py": "name = 'liger'\n", "liger_kernel/loss.py": "def loss():\n    return 1\n"}


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, one in it, which is all that pip knows of; the cache is empty."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "liger-kernel", "0.8.0", FILES)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("LOSSGATE_CACHE", str(tmp_path / "cache"))
    return folder


def overlay(release: str = RELEASE, offline: bool = False) -> Overlay:
    """What is laid over this interpreter for a release."""
    return overlay_of(release, sys.executable, offline)


def failure(release: str = RELEASE, offline: bool = False, python: str = sys.executable) -> TargetUnavailable:
    """Why a release cannot be had."""
    with pytest.raises(TargetUnavailable) as caught:
        overlay_of(release, python, offline)
    return caught.value


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder that is the same whenever it was fetched: compiled ones bear the time."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".sha256")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "name", ["trl", "fault:no_clip", "my_pkg.losses:grpo_loss", "./libgrpo.so#ns::grpo_loss", "an-entry-point"]
)
def test_other_names_are_left_alone(name: str) -> None:
    """Only NAME==VERSION is a release; every other name goes to the worker as it is."""
    assert overlay_of(name, "/absent/python", offline=True) == Overlay(name)


WRONG = {
    "trl==": ("trl== is no exact release", "name one, such as trl==0.14.0"),
    "trl>=1.0": ("trl>=1.0 is no exact release", "name one, such as trl==0.14.0"),
    "trl=1.9.0": ("trl=1.9.0 is no exact release", "name one, such as trl==0.14.0"),
    "trl==1.9.*": ("trl==1.9.* is no exact release", "name one, such as trl==0.14.0"),
    "trl==newest": ("trl==newest is no exact release", "name one, such as trl==0.14.0"),
    "trl==0.13.0": ("trl==0.13.0 is too old: the first release that can be judged is 0.14.0", ""),
    "nosuch==1.0": (
        "nosuch==1.0: releases can be fetched of trl, liger, verl, openrlhf, unsloth, and not of 'nosuch'",
        "",
    ),
    "liger-kernel==0.8.0": (
        "liger-kernel==0.8.0: releases can be fetched of trl, liger, verl, openrlhf, unsloth, "
        "and not of 'liger-kernel'",
        "did you mean 'liger==0.8.0'?",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_is_no_release(name: str) -> None:
    """One sentence, and what to write instead, before anything is fetched or asked."""
    error = failure(name, python="/absent/python")
    assert error.kind == "unknown"
    assert (error.message, error.hint) == WRONG[name]


def test_a_release_is_fetched_once(wheels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first use fetches it, and says so; later ones need no index."""
    (layer,) = overlay().layers
    assert str(layer) == "liger-kernel 0.8.0"
    assert capfd.readouterr().err == f"lossgate: fetching liger-kernel 0.8.0 (once, into {Cache.of_user()})\n"
    (wheels / "liger_kernel-0.8.0-py3-none-any.whl").unlink()
    assert overlay() == overlay(offline=True)
    assert overlay().folders == (layer.folder,)
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("wheels")
def test_the_release_alone_is_laid_over() -> None:
    """What the wheel holds and how pip recorded it, and no scripts; an interpreter imports it from there."""
    (folder,) = overlay().folders
    found = tree(folder)
    assert {name: text for name, text in found.items() if name.startswith("liger_kernel/")} == {
        name: text.encode() for name, text in FILES.items()
    }
    assert {entry.name for entry in folder.iterdir()} == {
        "liger_kernel",
        "liger_kernel-0.8.0.dist-info",
        "lossgate.sha256",
    }
    answer = subprocess.run(
        [sys.executable, "-c", "import liger_kernel; print(liger_kernel.__file__)"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == str(folder / "liger_kernel" / "__init__.py")


def test_what_a_release_depends_on_stays_out(wheels: Path) -> None:
    """A release runs on the torch of the interpreter: pip is not even to look for what it asks for."""
    make_wheel(wheels, "liger-kernel", "0.8.0", FILES, requires="torch>=99")
    assert len(overlay().layers) == 1


def test_no_code_of_a_package_runs(wheels: Path, tmp_path: Path) -> None:
    """Only wheels are taken: a source distribution would run its setup.py."""
    setup = f"open({str(tmp_path / 'ran')!r}, 'w').close()\nimport setuptools\nsetuptools.setup()\n".encode()
    with tarfile.open(wheels / "liger_kernel-0.8.9.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("liger_kernel-0.8.9/setup.py")
        entry.size = len(setup)
        archive.addfile(entry, io.BytesIO(setup))
    assert failure("liger==0.8.9").message == "there is no liger-kernel 0.8.9; the nearest are 0.8.0"
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("wheels")
def test_the_interpreter_stays_as_it_is() -> None:
    """Nothing is installed into the environment that a release is laid over."""
    packages = Path(sys.executable).parents[1] / "lib"
    before = sorted(packages.glob("*/site-packages/*"))
    overlay()
    assert sorted(packages.glob("*/site-packages/*")) == before


def change(folder: Path) -> None:
    """Other code than the release's."""
    (folder / "liger_kernel" / "loss.py").write_text("def loss():\n    return 2\n")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (change, "liger_kernel/loss.py was changed"),
    "removed": (lambda folder: (folder / "liger_kernel/loss.py").unlink(), "liger_kernel/loss.py cannot be read"),
    "added": (lambda folder: (folder / "torch.py").write_text(""), "torch.py was added"),
    "compiled": (lambda folder: next(folder.rglob("*.pyc")).write_bytes(b""), ".pyc was changed"),
    "unsealed": (lambda folder: (folder / "lossgate.sha256").unlink(), "lossgate.sha256 cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_fetched_anew(kind: str, wheels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever differs from what was fetched is seen at the next use, and said; --offline it is one sentence."""
    assert wheels.is_dir()
    damage, sentence = DAMAGE[kind]
    (folder,) = overlay().folders
    whole = tree(folder)
    damage(folder)
    error = failure(offline=True)
    assert sentence in error.message
    assert error.message.endswith(f"the cache {Cache.of_user()}, and --offline fetches nothing")
    assert error.hint == f"lossgate fetch {RELEASE}"
    capfd.readouterr()
    assert overlay().folders == (folder,)
    assert "fetching liger-kernel 0.8.0 (again: " in capfd.readouterr().err
    assert tree(folder) == whole


def test_what_is_not_what_its_record_says_is_refused(wheels: Path) -> None:
    """A wheel whose files are not those of its RECORD does not enter the cache."""
    make_wheel(wheels, "liger-kernel", "0.8.0", FILES, recorded={"liger_kernel/loss.py": "something else"})
    error = failure()
    assert error.kind == "not_installed"
    assert "did not arrive whole: liger_kernel/loss.py is not what its RECORD says" in error.message
    assert not list(Cache.of_user().root.rglob("loss.py"))


@pytest.mark.usefixtures("wheels")
def test_offline_without_an_entry() -> None:
    """One sentence, and the command that fills the cache."""
    error = failure(offline=True)
    assert error.kind == "not_installed"
    assert error.message == (
        f"liger-kernel 0.8.0 is not in the cache {Cache.of_user()}, and --offline fetches nothing"
    )
    assert error.hint == f"lossgate fetch {RELEASE}"


def test_a_version_that_does_not_exist(wheels: Path) -> None:
    """The nearest ones are named, in order."""
    for version in ("0.8.1", "0.8.4", "0.8.10", "0.9.0"):
        make_wheel(wheels, "liger-kernel", version, FILES)
    error = failure("liger==0.8.5")
    assert error.kind == "unknown"
    assert error.message == "there is no liger-kernel 0.8.5; the nearest are 0.8.1, 0.8.4, 0.8.10"
    assert failure("liger==9").message.endswith("the nearest are 0.8.4, 0.8.10, 0.9.0")


def test_a_release_for_another_python(wheels: Path) -> None:
    """The sentence says which Python it needs, and which one there is."""
    make_wheel(wheels, "liger-kernel", "0.8.7", FILES, requires_python=">=4.1")
    error = failure("liger==0.8.7")
    assert error.message.startswith("liger-kernel 0.8.7 needs Python >=4.1; the one at ")


def test_a_release_for_another_python_by_its_index(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the index says so, and pip looks at no wheel."""
    make_wheel(wheels, "liger-kernel", "0.8.7", FILES, requires_python=">=4.1")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    with served(wheels, requires_python={"0.8.7": ">=4.1"}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        error = failure("liger==0.8.7")
        assert index.downloads == 0
    assert error.message.startswith("liger-kernel 0.8.7 needs Python >=4.1; the one at ")


@pytest.mark.usefixtures("wheels")
def test_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """That no index answers is told apart from a version that does not exist."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_RETRIES", "1")
    # A port that nothing listens at.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    error = failure()
    assert error.kind == "not_installed"
    assert error.message == (
        "liger-kernel 0.8.0 cannot be fetched: pip reaches no package index ([Errno 111] Connection refused)"
    )


def test_an_index_without_the_library(wheels: Path) -> None:
    """pip does not say why it finds nothing, so the sentence does not guess."""
    (wheels / "liger_kernel-0.8.0-py3-none-any.whl").unlink()
    error = failure()
    assert error.kind == "not_installed"
    assert error.message == "liger-kernel 0.8.0 cannot be fetched: pip finds no release of liger-kernel at all"


@pytest.mark.usefixtures("wheels")
def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither lossgate nor the interpreter has one: the sentence says how to get it."""
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    # As in an environment of lossgate's own that was made without it.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "pip").is_dir()])
    error = failure(python=python)
    assert error.message == (
        f"liger-kernel 0.8.0 cannot be fetched: there is no pip, neither with lossgate nor in {python}"
    )
    assert error.hint == f"{sys.executable} -m ensurepip"


@pytest.mark.usefixtures("wheels")
def test_settings_for_environments_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user's pip is told of environments, such as a constraint on the version, is not of the cache."""
    (tmp_path / "constraints.txt").write_text("liger-kernel==0.8.5\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert len(overlay().layers) == 1
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.usefixtures("wheels")
def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the folder and the setting."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOSSGATE_CACHE", str(tmp_path / "file" / "cache"))
    error = failure()
    assert error.message == f"the cache {tmp_path}/file/cache cannot be written: Not a directory"
    assert "LOSSGATE_CACHE" in error.hint


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """lossgate's own setting, the system's for all caches, the usual folder; shown as a user writes it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOSSGATE_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "all"))
    assert Cache.of_user().root == tmp_path / "own"
    monkeypatch.delenv("LOSSGATE_CACHE")
    assert Cache.of_user().root == tmp_path / "all" / "lossgate"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert Cache.of_user().root == tmp_path / ".cache" / "lossgate"
    assert str(Cache.of_user()) == "~/.cache/lossgate"


def fetching(index: str) -> subprocess.Popen[str]:
    """`lossgate fetch` from an index, on its way."""
    unset = ("PIP_NO_INDEX", "PIP_FIND_LINKS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.Popen(
        [COMMAND, "fetch", RELEASE],
        env={**environment, "PIP_INDEX_URL": index},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_at_once_fetch_once(wheels: Path) -> None:
    """The second waits for the first, and takes what that has fetched."""
    held = threading.Event()
    with served(wheels, held) as index:
        first = fetching(index.url)
        until(lambda: index.downloads == 1)
        second = fetching(index.url)
        assert second.stderr is not None
        said = [second.stderr.readline() for _ in range(2)]
        held.set()
        for one in (first, second):
            one.communicate(timeout=60)
            assert one.returncode == 0
        assert index.downloads == 1
    assert said[1] == f"lossgate: waiting for another lossgate, which is fetching into {Cache.of_user()}\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_fetch_that_is_cut_short_leaves_nothing_half(how: signal.Signals, wheels: Path) -> None:
    """What was on its way is not taken for the release, and is gone after the next fetch."""
    with served(wheels, threading.Event()) as index:
        one = fetching(index.url)
        until(lambda: index.downloads == 1)
        one.send_signal(how)
        _, printed = one.communicate(timeout=60)
        if how is signal.SIGINT:
            assert one.returncode == 130
            assert "Traceback" not in printed
        assert "is not in the cache" in failure(offline=True).message
    (folder,) = overlay().folders
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what is to happen soon."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_what_an_interpreter_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed versions, not those of the folder that lossgate is called from."""
    (tmp_path / "numpy-0.0.1.dist-info").mkdir()
    (tmp_path / "numpy-0.0.1.dist-info" / "METADATA").write_text("Name: numpy\nVersion: 0.0.1\n")
    monkeypatch.chdir(tmp_path)
    has = Interpreter.ask(sys.executable, ("numpy", "no-such-distribution"))
    assert has.versions.keys() == {"numpy"}
    assert has.versions["numpy"] != "0.0.1"
    assert has.python == sys.version.split()[0]
    assert f"{sys.version_info.major}{sys.version_info.minor}" in has.tag


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    """Absent, or a program of another kind: a sentence, whichever release is asked for."""
    absent = failure(python=str(tmp_path / "python"))
    assert (absent.kind, absent.message) == ("interpreter", f"there is no interpreter at {tmp_path / 'python'}")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 'what is -c?' >&2\nexit 2\n")
    program.chmod(0o755)
    other = failure(python=str(program))
    assert other.message == f"{program} cannot say what is installed in it (what is -c?)"


def test_an_interpreter_that_lacks_what_a_library_stands_on(tmp_path: Path) -> None:
    """It is named with the command that installs it, before anything is fetched."""
    venv.create(tmp_path, symlinks=True, with_pip=False)
    python = tmp_path / "bin" / "python"
    error = failure("trl==1.9.0", python=str(python))
    assert error.message == f"trl 1.9.0 needs transformers, accelerate, datasets, not installed in {python}"
    assert error.hint == f"{python} -m pip install transformers accelerate datasets"


OLD = {"transformers", "huggingface_hub", "tokenizers", "datasets", "fsspec"}


@pytest.mark.parametrize(
    ("release", "installed", "laid_over"),
    [
        (
            "0.28.0",
            {"transformers": "5.24.0"},
            {"transformers": "4.57.6", "requests": "2.34.2", "httpx": "0.28.1"},
        ),
        ("0.28.0", {"transformers": "4.57.6"}, {"requests": "2.34.2"}),
        ("0.29.1", {"transformers": "5.24.0"}, {"requests": "2.34.2"}),
        ("1.14.1", {"transformers": "5.24.0", "requests": "2.20"}, {"urllib3": "2.8.0"}),
        ("1.14.2", {"transformers": "5.24.0"}, {}),
        ("0.17.0", {"transformers": "4.57.6"}, {"rich": "15.0.0"}),
        ("0.18.0", {"transformers": "4.57.6"}, {"requests": "2.34.2"}),
    ],
)
def test_what_trl_needs_beside_itself(release: str, installed: dict[str, str], laid_over: dict[str, str]) -> None:
    """transformers 4 for releases that do not run on 5, and what else is lacking; nothing that is there."""
    companions = LIBRARIES["trl"].companions_of(Version(release), installed)
    assert laid_over.items() <= companions.items()
    assert bool(companions) == bool(laid_over)
    assert ("rich" in companions) == (release == "0.17.0")
    assert companions.keys() >= OLD or not OLD & companions.keys()
    assert ("transformers" in companions) == ("transformers" in laid_over)
    assert "requests" not in companions or "requests" not in installed


def test_no_second_torch() -> None:
    """Nothing that is laid over is torch or brings one: distributions come alone, and each is pinned."""
    for library in LIBRARIES.values():
        for companions in library.companions:
            for name, version in {**companions.pins, **companions.lacking}.items():
                assert name not in ("torch", "triton", "nvidia")
                assert str(Version(version)) == version


def test_a_companion_that_does_not_exist(wheels: Path, tmp_path: Path) -> None:
    """The sentence says what it is for; that pip has no such version is no mistake in the release's name."""
    make_wheel(wheels, "unsloth-zoo", "2026.8.13", {"unsloth_zoo/__init__.py": ""})
    make_wheel(wheels, "packaging", "1.0", {"packaging/__init__.py": ""})
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    packages = next((tmp_path / "bare" / "lib").glob("*/site-packages"))
    (packages / "numpy-2.0.dist-info").mkdir()
    (packages / "numpy-2.0.dist-info" / "METADATA").write_text("Name: numpy\nVersion: 2.0\n")
    error = failure("unsloth==2026.8.13", python=str(tmp_path / "bare" / "bin" / "python"))
    assert error.kind == "not_installed"
    assert error.message == (
        "unsloth 2026.8.13 needs packaging 26.4, and there is no packaging 26.4; the nearest are 1.0"
    )


@pytest.mark.usefixtures("wheels")
def test_modules_of_the_current_folder_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork may have a folder that is called like one of pip's, or of what the interpreter is asked with."""
    monkeypatch.chdir(tmp_path)
    for name in ("pip", "platform", "sysconfig", "json", "packaging"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder was imported')\n")
    assert Interpreter.ask(sys.executable, ()).python == sys.version.split()[0]
    assert len(overlay().layers) == 1


def test_the_page_says_from_which_release_on() -> None:
    """docs/releases.md names every library with the first release that can be judged."""
    page = " ".join((Path(__file__).parents[2] / "docs" / "releases.md").read_text().split())
    for library in LIBRARIES.values():
        assert f"`{library.name}` from {library.first}" in page


YANKED = '<a href="{name}" data-yanked="it is broken">{name}</a>\n'
LINK = '<a href="{name}">{name}</a>\n'


@pytest.fixture
def several(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip knows of are five releases: one yanked, one no final one."""
    names = [make_wheel(wheels, "liger-kernel", f"0.8.{last}", FILES).name for last in ("1", "2", "10", "11rc1")]
    names += [path.name for path in wheels.glob("*-0.8.0-*.whl")]
    links = [(YANKED if "-0.8.2-" in name else LINK).format(name=name) for name in names]
    page = wheels / "links.html"
    page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    monkeypatch.setenv("PIP_FIND_LINKS", str(page))
    return wheels


def spanned(text: str, offline: bool = False) -> list[str]:
    """The releases of a range."""
    return [str(one.version) for one in Span.of("liger", text).releases(sys.executable, offline)]


@pytest.mark.usefixtures("several")
def test_the_releases_of_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of versions, ends included, without what is yanked or no final one, unless it is an end."""
    assert spanned("0.8.0..") == ["0.8.0", "0.8.1", "0.8.10"]
    assert spanned("0.8.1..0.8.10") == ["0.8.1", "0.8.10"]
    assert spanned("0.8.2..0.8.10") == ["0.8.2", "0.8.10"]
    assert spanned("..0.8.1") == ["0.8.0", "0.8.1"]
    monkeypatch.setenv("PIP_PRE", "1")
    assert spanned("0.8.0..") == ["0.8.0", "0.8.1", "0.8.10"]
    with pytest.raises(TargetUnavailable, match=r"there is no liger-kernel 0\.8\.7; the nearest are") as caught:
        spanned("0.8.0..0.8.7")
    assert caught.value.kind == "unknown"


@pytest.mark.usefixtures("several")
def test_the_releases_of_a_range_offline() -> None:
    """Those that the cache has; an end that it lacks is named with the command that fetches it."""
    overlay("liger==0.8.0")
    overlay("liger==0.8.10")
    assert spanned("0.8.0..", offline=True) == ["0.8.0", "0.8.10"]
    with pytest.raises(TargetUnavailable, match=r"liger-kernel 0\.8\.1 is not in the cache") as caught:
        spanned("0.8.1..", offline=True)
    assert caught.value.hint == "lossgate fetch liger==0.8.1"


def test_releases_that_cannot_be_listed(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No index knows the library, or none is reached: one sentence."""
    for wheel in wheels.iterdir():
        wheel.unlink()
    with pytest.raises(TargetUnavailable, match="pip finds no release of liger-kernel at all"):
        spanned("0.8.0..")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(TargetUnavailable, match="pip reaches no package index"):
        spanned("0.8.0..")
