"""A target that an installed package ships: its entry point is given the classes that a target is made of."""

from __future__ import annotations

import json

from .. import evaluation, target
from ..entry_points import GROUP, Shipped


def open_shipped(name: str, offers: list[Shipped]) -> target.Target:
    """The target of that name; `offers` are the entry points that have it.

    Raises `Unavailable` when two packages have one, or what there is does not make a target.
    """
    if len(offers) > 1:
        packages = " and ".join(offer.package for offer in offers)
        raise target.Unavailable("unknown", f"several packages have a target {name!r}: {packages}")
    (offer,) = offers
    what = f"{name}, an entry point of {offer.package} {offer.version} ({offer.point.value}),"
    try:
        made = offer.point.load()(target)
        # What it says of itself must be there, and travel.
        json.dumps(made.facts if isinstance(made, target.Target) else None)
    except target.Unavailable:
        raise
    # An import may run anything, and raise anything, SystemExit included.
    except BaseException as error:
        raise target.Unavailable("broken", f"{what} {evaluation.sentence(error)}") from error
    if not isinstance(made, target.Target):
        raise target.Unavailable(
            "broken",
            f"{what} returned no target but an object of type {type(made).__name__}",
            hint=f"a {GROUP} entry point takes the module of Target and Support, and returns a Target",
        )
    return made
