"""Points of the space evaluated on one case, exactly and with the bound, sharing what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, TypeVar

from cases.case import Case
from cases.conventions import SequenceGradient
from cases.spec import Level
from oracles import vespo
from oracles.completions import Completion, Formula, Parameters
from oracles.expectation import Expectation, expectation_of
from oracles.operations import exp, stop_gradient
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.slips.steps import Steps
from oracles.space.divergences import divergence_term
from oracles.space.surrogates import surrogate_terms
from oracles.space.variant import KL, Aggregation, Placement, Ratio, Rows, Surrogate, Variant, Weighting
from oracles.terms import keeps

T = TypeVar("T")
Terms = tuple[tuple[Scalar, ...], ...]
"""A scalar for every token, by completion; completions without tokens are empty."""

_ROUGHLY: Final = 2.0**-49
"""Relative error of what a few operations in float64 give."""


class Pieces:
    """What the points of the space are made of, on one case; an off-policy mask is taken as the case has it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._formula = Formula.of(case)
        self._known: dict[tuple[Any, ...], Any] = {}

    def loss(self, variant: Variant) -> Scalar:
        """The loss of a point."""
        policy, divergence = self._loss_terms(variant)
        beta = self._formula.parameters.beta
        return policy if divergence is None or beta is None else policy + beta * divergence

    def may_lose(self, variant: Variant, loss: float) -> bool:
        """Whether the loss of a point may be a number, within twice its bound: quick, to rule most points out."""
        policy, kl, radius = self._roughly(variant)
        # beta, the product and the sum are rounded too.
        radius += self._case.batch.dtype.unit_roundoff * (abs(policy) + 4 * abs(kl)) if kl else 0.0
        return abs(loss - (policy + kl)) <= 2.0 * radius

    def may_be_within(self, variant: Variant, distance: float, loss: float) -> bool:
        """Whether the exact loss of a point may be within a distance of a number: quick, as `may_lose`."""
        policy, kl, _ = self._roughly(variant)
        return not abs(loss - (policy + kl)) > distance + _ROUGHLY * (abs(policy) + abs(kl))

    def _roughly(self, variant: Variant) -> tuple[float, float, float]:
        """Policy and KL terms of the loss of a point, to float64, and their bounds added up."""
        policy, divergence = self._loss_terms(variant)
        beta = self._formula.parameters.beta
        if divergence is None or beta is None:
            return policy.mid, 0.0, policy.radius
        return policy.mid, beta.mid * divergence.mid, policy.radius + beta.mid * divergence.radius

    def _loss_terms(self, variant: Variant) -> tuple[Scalar, Scalar | None]:
        """The policy terms as one number, and the KL terms without beta, where there are any."""
        policy = self._once(
            ("policy", variant.surrogate, variant.ratio, variant.weighting, variant.aggregation, variant.rows),
            lambda: self._aggregated(self._policy(variant), variant.aggregation, variant.rows),
        )
        if variant.kl is KL.NONE or self._formula.parameters.beta is None:
            return policy, None
        aggregation = self._kl_aggregation(variant)
        return policy, self._once(
            ("kl", variant.kl, self._kl_ratio(variant), variant.weighting, aggregation, variant.rows),
            lambda: self._aggregated(self._kl(variant), aggregation, variant.rows),
        )

    def expectation(self, variant: Variant) -> Expectation:
        """What an implementation of a point answers: loss and gradient, with their bounds."""
        return self.expected(self.loss(variant))

    def expected(self, loss: Scalar) -> Expectation:
        """What an implementation of a loss over this formula answers."""
        return expectation_of(self._case, self._formula, loss)

    def written(self, steps: Steps, variant: Variant) -> Scalar:
        """The loss whose terms are formed by other steps, put together as a point puts its own together."""
        formula = self._formula
        policy: list[tuple[Scalar, ...]] = []
        divergence: list[tuple[Scalar, ...]] = []
        for completion in self._completions:
            own, kl = steps.terms(completion, formula) if completion else ((), ())
            policy.append(own)
            divergence.append(kl)
        whole = self._aggregated(tuple(policy), variant.aggregation, variant.rows)
        beta = formula.parameters.beta
        if beta is None:
            return whole
        return whole + beta * self._aggregated(tuple(divergence), self._kl_aggregation(variant), variant.rows)

    @property
    def positions(self) -> Iterable[tuple[int, int]]:
        """Row and column of every unmasked token of the judged step, in the order of the terms."""
        return self._formula.leaves

    @property
    def window_tokens(self) -> Fraction:
        """What a mean over the tokens of the step divides by."""
        return self._formula.divisor(self._formula.window_tokens).value

    def ratio_terms(self, variant: Variant) -> Terms:
        """The importance ratio of every token."""
        return self._ratios(variant.ratio)

    def policy_terms(self, variant: Variant) -> Terms:
        """The policy term of every token, with its importance ratio."""
        return self._policy(variant)

    def kl_terms(self, variant: Variant) -> Terms:
        """The KL term of every token, without beta."""
        return self._kl(variant)

    def kl_is_apart(self, variant: Variant) -> bool:
        """Whether KL terms are averaged by themselves."""
        return self._kl_aggregation(variant) is not variant.aggregation

    @property
    def overflows(self) -> bool:
        """Whether an intermediate of what was evaluated may exceed the dtype."""
        return self._formula.tape.overflows

    def _once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
        known: T = self._known[key]
        return known

    @cached_property
    def _completions(self) -> tuple[Completion, ...]:
        return tuple(completion for part in self._formula.micro_batches for completion in part.completions)

    def _under(self, conventions: dict[str, Any] | None = None, **spec: Any) -> Formula:
        """The formula on the same tape, with other hyper-parameters."""
        changed = conventions or {}

        def make() -> Formula:
            own = replace(self._case.spec, **spec)
            own = replace(own, conventions=replace(own.conventions, **changed))
            return replace(self._formula, parameters=Parameters(own, self._formula.tape))

        return self._once(("under", *changed.items(), None, *spec.items()), make)

    def _ratios(self, ratio: Ratio) -> Terms:
        def make() -> Terms:
            match ratio:
                case Ratio.TOKEN:
                    formula = self._under(importance_sampling_level=Level.TOKEN)
                case Ratio.SEQUENCE:
                    formula = self._under(
                        {"sequence_gradient": SequenceGradient.COMPLETION},
                        importance_sampling_level=Level.SEQUENCE,
                    )
                case Ratio.SEQUENCE_TOKEN:
                    formula = self._under(
                        {"sequence_gradient": SequenceGradient.TOKEN}, importance_sampling_level=Level.SEQUENCE
                    )
                case Ratio.PRODUCT:
                    return self._each(self._product)
                case Ratio.ON_POLICY:
                    return self._each(lambda row: [exp(one.logp - stop_gradient(one.logp)) for one in row])
                case Ratio.INVERTED:
                    return self._each(lambda row: [exp(one.old_logp - one.logp) for one in row])
            return self._each(lambda row: ratios(row, formula))

        return self._once(("ratio", ratio), make)

    def _product(self, completion: Completion) -> list[Scalar]:
        whole = self._formula.total([token.logp - token.old_logp for token in completion])
        return [exp(whole)] * len(completion)

    def _each(self, make: Callable[[Completion], Sequence[Scalar]]) -> Terms:
        return tuple(tuple(make(completion)) if completion else () for completion in self._completions)

    def _policy(self, variant: Variant) -> Terms:
        ignored = variant.weighting is Weighting.NONE
        if variant.surrogate is Surrogate.GAMMA:
            # vespo has the importance ratio in its weight.
            return self._kept(self._once(("gamma", ignored), lambda: self._gamma(ignored)))
        terms: Terms = self._once(
            ("surrogate", variant.surrogate, variant.ratio),
            lambda: self._surrogates(variant.surrogate, self._ratios(variant.ratio)),
        )
        return self._kept(terms if ignored else self._weighted(terms))

    def _gamma(self, unweighted: bool) -> Terms:
        def terms(completion: Completion) -> list[Scalar]:
            tokens = (replace(one, importance_ratio=None) for one in completion)
            return vespo.policy_terms(Completion(tuple(tokens)) if unweighted else completion, self._formula)

        return self._each(terms)

    def _kept(self, terms: Terms) -> Terms:
        if self._case.spec.off_policy_mask_threshold is None:
            return terms
        zero = self._formula.parameters.number(0.0)
        return tuple(
            tuple(term if kept else zero for term, kept in zip(row, keeps(completion, self._formula), strict=True))
            if row
            else ()
            for row, completion in zip(terms, self._completions, strict=True)
        )

    def _weighted(self, terms: Terms) -> Terms:
        return tuple(
            tuple(
                term if token.importance_ratio is None else term * token.importance_ratio
                for term, token in zip(row, completion, strict=True)
            )
            for row, completion in zip(terms, self._completions, strict=True)
        )

    def _surrogates(self, surrogate: Surrogate, ratio: Terms) -> Terms:
        rows = zip(self._completions, ratio, strict=True)
        return tuple(tuple(surrogate_terms(surrogate, row, r, self._under)) if row else () for row, r in rows)

    def _kl_ratio(self, variant: Variant) -> Ratio | None:
        return variant.ratio if variant.kl in _WITH_RATIO else None

    def _kl_aggregation(self, variant: Variant) -> Aggregation:
        own = {
            Placement.TOKEN_MEAN: Aggregation.STEP_TOKEN_MEAN,
            Placement.MICRO_BATCH_MEAN: Aggregation.TOKEN_MEAN,
            Placement.SEQUENCE_MEAN: Aggregation.SEQUENCE_MEAN,
        }
        return own.get(variant.placement, variant.aggregation)

    def _kl(self, variant: Variant) -> Terms:
        def make() -> Terms:
            ratio = self._ratios(variant.ratio)
            rows = zip(self._completions, ratio, strict=True)
            return tuple(
                tuple(divergence_term(variant.kl, token, r, self._under) for token, r in zip(row, rs, strict=True))
                for row, rs in rows
            )

        terms: Terms = self._once(("kl", variant.kl, self._kl_ratio(variant)), make)
        return self._weighted(terms) if variant.weighting is Weighting.BOTH else terms

    def _aggregated(self, terms: Terms, aggregation: Aggregation, rows: Rows) -> Scalar:
        formula, spec = self._formula, self._case.spec
        total = formula.total
        flat = [term for row in terms for term in row]
        match aggregation:
            case Aggregation.SEQUENCE_MEAN:
                return self._row_mean(
                    [total(row) / formula.divisor(len(row)) if row else None for row in terms], rows
                )
            case Aggregation.TOKEN_MEAN:
                return total([self._token_mean(part, terms) for part in self._parts]) / formula.pieces
            case Aggregation.STEP_TOKEN_MEAN:
                return total(flat) / formula.divisor(formula.window_tokens)
            case Aggregation.CONSTANT_ALONE:
                return total(flat) / formula.pieces.times(spec.max_completion_length)
            case Aggregation.TOKEN_SUM:
                return total(flat) / formula.pieces
        sums = self._row_mean([total(row) if row else None for row in terms], rows)
        match aggregation:
            case Aggregation.CONSTANT:
                return sums / spec.max_completion_length
            case Aggregation.PADDED_MEAN:
                return sums / self._case.batch.columns
            case _:
                return sums

    def _row_mean(self, values: Sequence[Scalar | None], rows: Rows) -> Scalar:
        """The mean over completions, of which those without tokens have no value."""
        total = self._formula.total
        filled = [value for value in values if value is not None]
        match rows:
            case Rows.COUNTED:
                return total(filled) / len(values)
            case Rows.NOT_COUNTED:
                return total(filled) / max(len(filled), 1)
            case Rows.NOT_COUNTED_APART:
                parts = [[value for row in part if (value := values[row]) is not None] for part in self._parts]
                return total([total(part) / max(len(part), 1) for part in parts]) / self._formula.pieces

    @cached_property
    def _parts(self) -> tuple[range, ...]:
        """The completions of each micro-batch."""
        size = len(self._formula.micro_batches[0].completions)
        return tuple(range(start, start + size) for start in range(0, len(self._completions), size))

    def _token_mean(self, part: range, terms: Terms) -> Scalar:
        flat = [term for row in part for term in terms[row]]
        return self._formula.total(flat) / self._formula.divisor(max(len(flat), 1))


_WITH_RATIO: Final = (KL.K3_BIAS_CORRECTED, KL.K3_RATIO_DETACHED, KL.K3_CORRECTS_DETACHED, KL.K3_DIVIDED)
