"""The contest of latent models and stages that see space, within a budget.

    a first look at stages: hopeless? how slow? ──▶ stages fitted ──▶ the latent search ──▶ judged ──▶ better stages

Stages hold out a fifth of the samples themselves to choose ridges, so that one fit gives a model and its error. Where
that is far from the error of the latent search, it decides. Where the two are close, both are judged on the same
samples: the first fold of the latent search, whose finalists are fitted to all others, as the stages then are. Before
anything is begun its seconds are foreseen (`pcarann.recipe.stages`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from sklearn.base import clone

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.containers.packing import Packed, Packing
from pcarann.fitting import checked_pairs
from pcarann.latent.repeats import groups_of
from pcarann.mesh.mesh import Mesh
from pcarann.operator import PCARaNN
from pcarann.options import Grid
from pcarann.recipe.choice import DEFAULT, KEPT_ENERGY
from pcarann.recipe.judge import split_into_folds
from pcarann.recipe.report import AutoReport, Trial, failures_in
from pcarann.recipe.search import FEWEST_TO_CHOOSE, searched
from pcarann.recipe.stages import Stages, StagesJudge, relative_errors
from pcarann.recipe.verdict import AutoVerdict
from pcarann.settings import packed_options
from pcarann.staged import Staged
from pcarann.symmetry.generators import Symmetry

__all__ = ["Contest"]

_MOST_HELD = 200  # samples on which both sides are judged
_FIRST, _LOOKED_AT = 8, (64, 32, 16)  # samples of the first fit, which is timed, and of the first look
_FEATURES = (24, 60)  # of both
_LOOK_SHARE = 0.15  # of the budget
_HOPELESS = 5.0  # times the error of a kernel on the latents, for the same few samples
_SHARES = ((0.6, 0.55), (1.5, 0.45), (math.inf, 0.3))  # errors in units of that kernel's; of the time left, for stages
_LEADING = 0.6  # errors in the same units: the latent search is then a short one, and most of the time is kept
_QUICK_LATENT, _BEHIND, _LATENT_SHARE = 0.12, 3.0, 0.35  # of the budget; times the error of stages; of the time left
_GROWN = 3  # fits of larger and larger stages
_WORTH = 1.5  # times the seconds of the last one, which a larger one must be foreseen to take
_MORE = 1.25  # times the error of a fit to fewer samples, judged on others: a fit to more may still be taken
_ENOUGH = 100  # samples, from which on what was settled stays
_CLOSE = 1.5  # times the other's error: below it both are judged on the same samples
_GAIN = 0.98  # of the error, for which dearer stages are taken
_RICHER: tuple[dict[str, Any], ...] = ({"n_stages": 12, "n_features": 200}, {"n_stages": 10, "n_features": 150})
_MOST_COPIES = 16
_CAREFUL = 0.9  # of the time left, that a fit may be foreseen to take


class Contest:
    """Both sides, and the time that is left for them."""

    def __init__(
        self,
        latent: Packed,
        *,
        begun: float,
        budget: float,
        symmetry: Symmetry | None,
        fixed: dict[str, Any],
        tick: Callable[[str], None],
    ):
        self.latent, self.end, self.symmetry, self.fixed, self.tick = latent, begun + budget, symmetry, fixed, tick
        self.fields: tuple[Array, Array] | str = (latent.X, latent.y)
        """Of the stages, or why there are none"""
        self.packing: Packing | None = None
        inputs, outputs, self.grids, _ = checked_pairs(*self.fields, fixed["device"], least=FEWEST_TO_CHOOSE)
        self.pair = inputs, outputs
        if symmetry is not None:
            symmetry.bind(*self.grids)  # one that does not fit is an error of the user, not of a candidate
        xp = place_of(inputs).xp
        self.known = [
            xp.reshape(part, (part.shape[0], *grid)) for part, grid in zip(self.pair, self.grids, strict=True)
        ]
        """What models of latents are fitted to"""
        self.samples = int(inputs.shape[0])
        self.inner, held = split_into_folds(groups_of(inputs, outputs), fixed["random_state"])[0]
        self.positions = range(0, len(held), -(-len(held) // _MOST_HELD))
        """Which of the samples held out, in ascending order, are judged on"""
        self.held = [sorted(held)[i] for i in self.positions]
        self.verdict = AutoVerdict(AutoReport(), budget=budget)
        self.share, self.leading = _SHARES[-1][1], False

    def stack(self, packing: Callable[[], Packed]) -> None:
        """Let stages have the parts of inputs and outputs on one grid, or say why that cannot be."""
        try:
            found = packing()
        except ValueError as refused:
            self.fields = str(refused)
            return
        self.fields, self.packing = (found.X, found.y), found.packing
        inputs, outputs, self.grids, _ = checked_pairs(*self.fields, self.fixed["device"], least=FEWEST_TO_CHOOSE)
        self.pair = inputs, outputs

    @property
    def mesh(self) -> Mesh | None:
        """Where stages see"""
        return None if self.packing is None else self.packing.mesh

    @property
    def left(self) -> float:
        """Seconds"""
        return self.end - time.perf_counter()

    def run(self) -> PCARaNN | Staged:
        """The winner: stages are fitted, a latent model is not."""
        stages = self._stages()
        leading = stages is not None and self.leading
        latent, report = self._latent(_QUICK_LATENT * self.verdict.budget if leading else self.left)
        if leading and stages is not None and not _BEHIND * _own_error(stages[1]) < report.error < math.inf:
            latent, report = self._latent(_LATENT_SHARE * self.left)
        if stages is None:
            self.verdict.error, self.verdict.reason = report.error, "no stages were fitted to all samples"
            return latent
        choice, model = stages
        if report.error == math.inf:  # no time was left to judge one: a plain kernel takes next to none
            kernel = PCARaNN(KEPT_ENERGY, regressor="kernel", **self.fixed | packed_options(self.latent))
            error = math.inf
            with failures_in(self.verdict.failed, "a plain kernel"):
                error = self._kernel(self.inner, self.held)
            if error < _own_error(model):
                self.verdict.error = error
                self.verdict.reason = (
                    f"a plain kernel has {error:.3g}, stages {_own_error(model):.3g}; no time for others"
                )
                return kernel
        if not self._wins(choice, _own_error(model), report):
            return latent
        self.judge.start_seconds = _seconds_of(report)
        return self._bettered(choice, model, latent)

    def _latent(self, budget: float) -> tuple[PCARaNN, AutoReport]:
        """The latent search within so many seconds."""
        self.tick("latent models")
        budget = max(min(budget, self.left), 0.01 * self.verdict.budget)
        options = self.fixed | packed_options(self.latent)
        model, report = PCARaNN(**options), AutoReport(choice=DEFAULT)
        with failures_in(self.verdict.failed, "the search of latent models"):
            model, report = searched(
                PCARaNN,
                self.latent.X,
                self.latent.y,
                budget=budget,
                symmetry=self.symmetry,
                fixed=options,
                tick=self.tick,
                smooth=self.latent.is_plain,
            )
        self.verdict.latent = report
        return model, report

    def _stages(self) -> tuple[Stages, Staged] | None:
        """Stages fitted to all samples, as large as the time allows; None where they are not worth it."""
        if isinstance(self.fields, str):
            self.verdict.left_out.append(("all", self.fields))
            return None
        try:
            self.judge = StagesJudge(
                Staged, self.pair, self.grids, symmetry=self.symmetry, fixed=self.fixed, mesh=self.mesh
            )
        except ValueError as nothing_shared:
            self.verdict.left_out.append(("all", str(nothing_shared)))
            return None
        why: str | None = "the first look failed"
        with failures_in(self.verdict.failed, "stages, a first look"):
            why = self._looked()
        if why is not None:
            self.verdict.left_out.append(("all further ones", why))
            return None
        return self._grown()

    def _grown(self) -> tuple[Stages, Staged] | None:
        """Fit the largest stages that a share of the time allows, and larger ones where it was less than foreseen."""
        end = time.perf_counter() + self.share * self.left
        larger = Stages().fewer(self.samples)
        found: tuple[Stages, Staged] | None = None
        for _ in range(1 if self.leading else _GROWN):
            least = 0.0 if found is None else _WORTH * self.judge.foreseen(found[0], self.samples)
            seconds = [self.judge.foreseen(one, self.samples) for one in larger]
            fits = [i for i, each in enumerate(seconds) if least <= each <= end - time.perf_counter()]
            if not fits:
                break
            if (model := self._fitted(larger[fits[0]])) is None:
                del larger[fits[0]]
                continue
            choice = _settled(larger[fits[0]], model)
            more = found is not None and choice.fitted_rows(self.samples) > found[0].fitted_rows(self.samples)
            if found is None or _own_error(model) < (_MORE if more else 1.0) * _own_error(found[1]):
                found = choice, model
            if choice.fitted_rows(self.samples) >= _ENOUGH:
                larger = [replace(one, grid=choice.grid, channels=choice.channels) for one in larger]
            larger = larger[: fits[0]]
        if found is None and not self.verdict.failed:
            self._leave_out(larger[-1:])
        return found

    def _looked(self) -> str | None:
        """Time small fits of stages, compare them with a kernel on the latents; say why to leave it at that."""
        small = Stages(n_stages=1, n_features=_FEATURES[0], n_members=1, channels=self.judge.usual)
        for _ in range(2):  # the first one times what it starts up
            self.judge.errors(small, self.inner[:_FIRST], self.held[:2])
        small = replace(small, n_stages=2, n_features=_FEATURES[1])
        for rows in _LOOKED_AT:
            count = min(rows, len(self.inner))
            foreseen = self.judge.foreseen(small, count, count)
            if foreseen <= _LOOK_SHARE * self.verdict.budget:
                break
        else:
            return f"a first look at {count} samples would take {foreseen:.1f} s"
        self.tick("stages, a first look")
        errors, seconds = self.judge.errors(small, self.inner[:count], self.held[:count])
        error, quick = float(errors.mean()), self._kernel(self.inner[:count], self.held[:count])
        name = f"{small.name}, {count} samples: a first look, a kernel on their latents has {quick:.2e}"
        self.verdict.stages.append(Trial(name, error, seconds))
        if error > _HOPELESS * quick:
            return f"at the first look they were {error / quick:.0f} times worse than a kernel on the latents"
        self.share = next(share for most, share in _SHARES if error <= most * quick)
        self.leading = error < _LEADING * quick
        return None

    def _kernel(self, inner: list[int], held: list[int]) -> float:
        """The error of a plain latent model of few samples."""
        options = self.fixed | packed_options(self.latent)
        model = PCARaNN(KEPT_ENERGY, n_members=1, regressor="kernel", **options)
        (a, a_held), (u, u_held) = ([taken(part, sorted(rows)) for rows in (inner, held)] for part in self.known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return float(relative_errors(model.fit(a, u).predict(a_held), u_held).mean())

    def _fitted(self, choice: Stages) -> Staged | None:
        """Stages fitted to all samples; None where that fails."""
        self.tick(f"stages: {choice.name}")
        assert not isinstance(self.fields, str)
        model: Staged | None = None
        with failures_in(self.verdict.failed, choice.name):
            model = self.judge.fitted(choice, self.fields)
        if model is None:
            return None
        self.verdict.stages.append(Trial(choice.name, _own_error(model), model.fit_seconds_["total"]))
        return model

    def _judged(self, choice: Stages) -> float | None:
        """The error on the samples held out, of stages fitted to the others; None where time is short or it fails."""
        if self.judge.foreseen(choice, len(self.inner), len(self.held)) > _CAREFUL * self.left:
            return None
        self.tick(f"stages: {choice.name}")
        name = f"{choice.name}, fitted without the {len(self.held)} samples held out"
        with failures_in(self.verdict.failed, name):
            errors, seconds = self.judge.errors(choice, self.inner, self.held)
            self.verdict.stages.append(Trial(name, float(errors.mean()), seconds))
            return float(errors.mean())
        return None

    def _wins(self, choice: Stages, own: float, report: AutoReport) -> bool:
        """Whether stages do, by their own validation, or where it is close, by the samples held out."""
        rival, on = report.error, "each on samples that it held out"
        close = report.by_fold and max(own, rival) < _CLOSE * min(own, rival)
        if close and (judged := self._judged(choice)) is not None:
            own, rival = judged, float(report.by_fold[0][list(self.positions)].mean())
            on = f"both on the same {len(self.held)} samples held out"
        if won := own < rival:
            self.verdict.winner, self.verdict.error = "stages", own
            against = f"{rival:.3g} of a latent model, {on}" if rival < math.inf else "none that was judged in time"
            self.verdict.reason = f"error {own:.3g} against {against}"
        else:
            self.verdict.error, self.verdict.reason = rival, f"error {rival:.3g} against {own:.3g} of stages, {on}"
        return won

    def _bettered(self, choice: Stages, model: Staged, latent: PCARaNN) -> Staged:
        """Dearer stages, one change at a time, each kept where it lowers the error."""
        if self.symmetry is not None:
            choice, model = self._offer_symmetry(self.symmetry, choice, model)
        for _ in range(_GROWN):  # seconds are foreseen better after each
            found = self._dearer(self._larger(choice), model)
            if found is None:
                break
            choice, model = found
        if self.packing is not None:  # a model of latents of parts knows no stacked fields
            return model
        found = self._dearer([replace(choice, model=_for_any_samples(latent))], model)
        return model if found is None else found[1]

    def _dearer(self, larger: Sequence[Stages], model: Staged) -> tuple[Stages, Staged] | None:
        """The first of these for which there is time, where it lowers the error."""
        dearer = next((one for one in larger if self._has_time(one)), None)
        if dearer is None:
            self._leave_out(larger[-1:])
            return None
        other = self._fitted(dearer)
        if other is None or not _own_error(other) < _GAIN * _own_error(model):
            return None
        self.verdict.error = _own_error(other)
        self.verdict.reason += f"; then {dearer.name}, whose own samples held out say {_own_error(other):.3g}"
        return dearer, other

    def _larger(self, choice: Stages) -> list[Stages]:
        """Larger settings, the largest first."""
        usual: dict[str, Any] = {
            "n_stages": Stages.n_stages,
            "n_features": Stages.n_features,
            "n_members": Stages.n_members,
        }
        richer = [replace(choice, samples=None, **(usual | change)) for change in _RICHER]
        every = [*richer, *replace(choice, samples=None, **usual).fewer(self.samples)]
        least = _WORTH * self.judge.foreseen(choice, self.samples)
        return [one for one in every if self.judge.foreseen(one, self.samples) >= least]

    def _offer_symmetry(self, symmetry: Symmetry, choice: Stages, model: Staged) -> tuple[Stages, Staged]:
        """Judge one member with and without as many copies as there is time for, then fit all with them."""
        most = min(self.judge.order, symmetry.n_fit or _MOST_COPIES, _MOST_COPIES)
        is_symmetric = False
        with failures_in(self.verdict.failed, "the test whether stages have the symmetry"):
            is_symmetric = self.judge.is_symmetric(model, _own_error(model))
        if is_symmetric:
            self.verdict.left_out.append(("symmetry", "stages have it by themselves here"))
            return choice, model
        for copies in (most >> k for k in range(5) if most >> k > 1):
            alone = replace(choice, n_members=1)
            pair, with_copies = (alone, replace(alone, copies=copies)), replace(choice, copies=copies)
            seconds = sum(self.judge.foreseen(one, len(self.inner), len(self.held)) for one in pair)
            if seconds + self.judge.foreseen(with_copies, self.samples) <= _CAREFUL * self.left:
                break
        else:
            self.verdict.left_out.append(("symmetry", f"{seconds:.0f} s foreseen to judge it, {self.left:.0f} s left"))
            return choice, model
        without, found = (self._judged(one) for one in pair)
        if without is None or found is None or found > _GAIN * without or not self._has_time(with_copies):
            return choice, model
        if (moved := self._fitted(with_copies)) is None:
            return choice, model
        self.verdict.error = found
        self.verdict.reason += f"; the symmetry lowers it from {without:.3g} to {found:.3g} for one member"
        return with_copies, moved

    def _has_time(self, choice: Stages) -> bool:
        return self.judge.foreseen(choice, self.samples) <= _CAREFUL * self.left

    def _leave_out(self, choices: Sequence[Stages]) -> None:
        for choice in choices:
            why = f"{self.judge.foreseen(choice, self.samples):.0f} s foreseen, {self.left:.0f} s left"
            self.verdict.left_out.append((choice.name, why))


def _own_error(model: Staged) -> float:
    """On the samples that stages held out to choose their ridges."""
    found = model.stages_
    return found.steps[-1].error if found.steps else found.begun


def _for_any_samples(latent: PCARaNN) -> PCARaNN:
    """The model with a metric that every fit learns for itself.

    An array `relevance` belongs to the modes of all samples. Stages fit the model to folds too, whose modes are others,
    and fewer.
    """
    if isinstance(latent.relevance, str | Real):
        return latent
    found: PCARaNN = clone(latent).set_params(relevance="learned")
    return found


def _seconds_of(report: AutoReport) -> float:
    """Of one fit of what the latent search chose."""
    told = [finalist for finalist in report.finalists if finalist.name == report.choice.name]
    return told[0].seconds / max(1, len(report.by_fold)) if told else math.inf


def _settled(choice: Stages, model: Staged) -> Stages:
    """The choice with what a fit settled on."""
    found = model.stages_.settled
    return replace(choice, channels=found.channels, grid=Grid(found.layout.boundaries, found.layout.space))
