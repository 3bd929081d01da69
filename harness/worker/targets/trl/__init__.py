"""TRL: a real `GRPOTrainer` of any release, or a trainer class made after it, and its public `compute_loss`."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ...importing import version_of
from ...target import Target, Unavailable
from .calls import ComputeLoss, EndOfComputeLoss
from .config_class import config_class_of
from .features import LOGPS_METHODS, kind_of, lacking
from .tiny_trainer import build
from .trainer_target import TrainerTarget

_LIBRARIES = ("trl", "transformers", "accelerate", "torch")
_PIP = f"{sys.executable} -m pip install"


def open_target(name: str, _options: Mapping[str, str]) -> Target:
    """The TRL that is installed here."""
    _silence()
    try:
        from trl import GRPOConfig, GRPOTrainer
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise Unavailable("not_installed", f"{name} is not installed", f"{_PIP} {name}") from None
    except ImportError as error:
        if "GRPOTrainer" not in str(error) and "GRPOConfig" not in str(error):
            raise
        raise Unavailable("broken", f"the {name} here has no GRPOTrainer", f"{_PIP} -U {name}") from error
    return _target(f"{name} {version_of(name)}", GRPOTrainer, GRPOConfig)


def open_trainer(trainer_class: type, name: str, _options: Mapping[str, str]) -> Target:
    """A trainer class: a subclass of TRL's, or a copy of it.

    Raises `Unavailable` where it cannot be made as TRL's is, or its loss cannot be asked as TRL's is.
    """
    _silence()
    return _target(name, trainer_class, config_class_of(name, trainer_class))


def _target(label: str, trainer_class: Any, config_class: Any) -> Target:
    trainer = build(label, trainer_class, config_class)
    missing = lacking(trainer)
    if missing:
        raise Unavailable(
            "broken", f"{label} is no trainer after TRL's GRPOTrainer: it has no {', '.join(missing)}"
        )
    kind = kind_of(trainer)
    if kind is None:
        raise Unavailable(
            "broken",
            f"{label} takes its log-probabilities from a method that is not known here: it has neither "
            f"{' nor '.join(LOGPS_METHODS)}",
        )
    call = EndOfComputeLoss(trainer, kind) if kind.scores is None else ComputeLoss(trainer, kind)
    versions = {library: version_of(library) for library in _LIBRARIES if importlib.util.find_spec(library)}
    versions["from"] = _folder(sys.modules[trainer_class.__module__.partition(".")[0]])
    return TrainerTarget(label, versions, trainer, kind, call)


def _folder(package: ModuleType) -> str:
    """Where a package lies, with an `__init__` or without."""
    return os.path.dirname(package.__file__) if package.__file__ else next(iter(package.__path__))


def _silence() -> None:
    """Keep the libraries' notices out of the output that is shown with an error."""
    warnings.simplefilter("ignore")
    for library in ("trl", "transformers", "datasets", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
