"""Stages that see space on top of a surrogate: the estimator `Staged`.

    û₀ = mean field, input or another surrogate's prediction
    û_s = û_{s−1} + T⁻¹[ Σⱼ V_s(j, k) · (T hⱼ)(k) ],   hⱼ = tanh(random mixture of channels around a point)

A latent operator sees a field through its leading modes only. A stage looks at every point and its surroundings, and
its readout is a convolution, one ridge regression per band of wavenumbers. Nothing is trained by gradient descent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import Any

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.linearized import Linearized
from pcarann.backend.locking import writing
from pcarann.backend.progress import progress
from pcarann.backend.random import spread
from pcarann.containers.exchange import checked_outputs
from pcarann.containers.packing import packed
from pcarann.mesh.mesh import Mesh
from pcarann.operator import PCARaNN
from pcarann.options import Grid
from pcarann.scale.calibration import streamed
from pcarann.scale.kinds import is_lazy
from pcarann.scale.stages import stage_samples
from pcarann.spatial.chain import relative_error
from pcarann.spatial.channels import Channels
from pcarann.spatial.ends import ends_of
from pcarann.spatial.fitted import FittedStages, levels_of, range_of
from pcarann.spatial.fitting import Wanted, fit_stages, held_out, judge_of_chains
from pcarann.spatial.layout import Layout
from pcarann.spatial.mesh_domain import MeshDomain
from pcarann.spatial.report import StagesReport
from pcarann.spatial.resolution import stages_on
from pcarann.spatial.stage import Scene, Triple
from pcarann.spatial.start import FOLDS, Start, units_of
from pcarann.spatial.terms import Terms
from pcarann.storage.document import described
from pcarann.storage.formats import Document, Tensors
from pcarann.storage.stages import described_stages
from pcarann.surrogate import Surrogate
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.bands import Block
from pcarann.validation import (
    check_count,
    check_fields,
    check_kind,
    check_number,
    check_pair_lengths,
    check_seed,
    warn_user,
)

__all__ = ["Staged"]


class Staged(Surrogate):
    """Surrogate that corrects a prediction at every point of the grid, in stages.

    Inputs and outputs share axes of space, counted from the last: (samples, *space), or with further axes that count
    components. Inputs may lack axes of the outputs, along which they are repeated.

    Parameters
    ----------
    model : None, "mean", "input" or estimator
        What the first stage corrects: the mean field, the input itself (the state of a flow), or the prediction of
        another surrogate, unfitted, which is then fitted six times. None takes the input where it has the outputs'
        shape and is nearer to them, and else the mean field.
    n_stages : int
        At most; they end where an error on samples held out falls by less than a percent.
    n_features : int
        Random features of a stage.
    n_members : int
        Members of the ensemble, which differ in their random weights; intervals need more than one.
    grid : None, Grid or Mesh
        Which axes are space and how they end, or the mesh whose nodes the last axis counts; None finds axes and ends.
    channels : None or Channels
        What stages see; None settles it by small trials on samples held out.
    terms : sequence of functions
        Terms of the equation, f(a, u) of (samples, *space) fields in their own units, a repeated last point left out,
        with a last axis where there are several components; what they return stands among the channels.
    symmetry : None or Symmetry
        Transformations of (input, output) pairs under which the problem does not change: copies of the samples under
        them are fitted too, and corrections are averaged over them.
    max_samples : None or int
        Samples that stages are fitted to, drawn at random where there are more: every point of a field is a row of the
        regressions, so that further ones change little.
    adaptable : bool
        Whether to keep what `partial_fit` needs, a matrix of all features for every band.
    random_state, device, verbose
        As in `PCARaNN`.

    Examples
    --------
    >>> import numpy as np
    >>> from pcarann import Staged
    >>> from pcarann.metrics import relative_l2
    >>> rng, x = np.random.default_rng(0), np.linspace(0, 2 * np.pi, 64, endpoint=False)
    >>> a = sum(np.cos(k * x + rng.uniform(0, 6, (150, 1))) / k**0.5 for k in range(1, 20))    # rough: many modes
    >>> u = np.fft.irfft(np.fft.rfft(np.tanh(a)) / (1 + np.arange(33) ** 2 / 25))              # (samples, points)
    >>> model = Staged(n_features=40, n_members=1).fit(a[:100], u[:100])
    >>> relative_l2(model.predict(a[100:]), u[100:]) < 0.05
    True
    """

    def __init__(
        self,
        model: Any = None,
        n_stages: int = 8,
        n_features: int = 120,
        n_members: int = 2,
        grid: Grid | Mesh | None = None,
        channels: Channels | None = None,
        terms: Sequence[Callable[[Array, Array], Array]] = (),
        symmetry: Symmetry | None = None,
        max_samples: int | None = 4000,
        adaptable: bool = False,
        random_state: Any = 0,
        device: str | None = None,
        verbose: bool = False,
    ):
        self.model = model
        self.n_stages = n_stages
        self.n_features = n_features
        self.n_members = n_members
        self.grid = grid
        self.channels = channels
        self.terms = terms
        self.symmetry = symmetry
        self.max_samples = max_samples
        self.adaptable = adaptable
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Array, y: Array, *, together: int = 1, judge: Any = None) -> Staged:
        """Fit to input fields X and output fields y; `stages_` says what each stage gained.

        So many samples in a row may belong `together`, as the snapshots of a trajectory do. A `judge` is a function of
        a step, itself a function of inputs, that gives an error: stages then choose their ridges by it
        (`pcarann.Marching` judges roll-outs).
        """
        with writing(self):
            began = perf_counter()
            seed, together = check_seed(self.random_state), check_count(together, "together")
            X, y, together, ranges = stage_samples(X, y, self._most, seed, together)
            mesh = self.grid if isinstance(self.grid, Mesh) else None
            pair = packed(X, y, in_space=True, mesh=mesh, device=self.device)
            place = place_of(pair.X, self.device).computing
            inputs, input_grid = check_fields(pair.X, "X", place, least=FOLDS)
            outputs, output_grid = check_fields(pair.y, "y", place, least=FOLDS)
            check_pair_lengths(inputs.shape[0], outputs.shape[0])
            if inputs.shape[0] % together or inputs.shape[0] < 2 * together:
                raise ValueError(
                    f"{inputs.shape[0]} samples are not two groups or more of together={together}, as the pairs of a "
                    "trajectory are: more trajectories are needed."
                )
            seen = check_kind(self.channels, "channels", Channels)
            counts = [check_count(getattr(self, name), name) for name in ("n_stages", "n_features", "n_members")]
            layouts = _layouts(self.grid, (input_grid, output_grid), inputs, outputs)
            layout = layouts[0]
            scene = Scene.under(check_kind(self.symmetry, "symmetry", Symmetry), layout, seed)
            every = inputs
            inputs, outputs, together = self._some(inputs, outputs, seed, together)
            start, begun = self._start(inputs, outputs, scene(layout), seed, together)
            units = units_of(inputs, outputs, start.evolves)
            order, held = held_out(int(inputs.shape[0]), seed, together)
            given = taken(inputs, order) / units.inputs
            fields = start.inside(units, given) if begun is None else taken(begun, order) / units.outputs
            samples = Triple(given, fields, taken(outputs, order) / units.outputs)
            terms, seen = Terms.of(self.terms, units), None if seen is None else seen.checked()
            wanted = Wanted(counts[0], counts[1], counts[2], seen, seed, start.evolves, terms, bool(self.adaptable))
            judged = None if judge is None else judge_of_chains(judge, start, units, layout)
            with progress(self.verbose) as tick:
                grown = fit_stages(samples, layouts, scene, replace(wanted, tick=tick), held, judged)
            begun = relative_error(*(part[-held:, :] for part in samples[1:])) if judged is None else judged(grown.none)
            known = (ranges or (lambda *asked: range_of(asked[0], every, asked[1])))(layout, units.inputs)
            record = FittedStages.of(grown, samples, start, units, (begun, 0 if judged else held), known)
            place.wait()
            levels = levels_of(layout, every, units.inputs) if ranges is None else ()
            record = replace(record, packing=pair.packing, known=record.fingerprints(inputs, outputs), levels=levels)
            self._fitted = replace(record, seconds={"total": perf_counter() - began})
            self.__dict__.pop("auto_report_", None)
        return self

    def partial_fit(self, X: Array, y: Array, *, forgetting: float = 1.0) -> Staged:
        """Add new samples to the sums of the last stage and solve for its readouts again; earlier stages stay.

        That equals a fit of the last stage to all samples together, in any order and any blocks, with the ridge that
        was chosen; where samples are so many that large bands see a share of their rows, or of the copies of a
        symmetry, that share depends on the blocks. `forgetting` in (0, 1] discounts earlier samples by this factor for
        each new one, those of a block alike. A calibrated model is judged by them before it learns them, and its
        intervals follow (`monitor`). On a model that is not fitted yet, this is `fit`.
        """
        with writing(self):
            if not hasattr(self, "_fitted"):
                return self.fit(X, y)
            check_number(forgetting, "forgetting", above=0.0, most=1.0)
            if is_lazy(X, y):
                self._fitted = streamed(self, self._fitted, "partial_fit", X, y, forgetting=forgetting).fitted_
                return self
            fitted = self._fitted
            if fitted.layout.trained:
                raise ValueError("A model on another grid cannot adapt: adapt the one it came from, then call `on`.")
            if not fitted.sums:
                kept = "its sums were not kept: fit it with adaptable=True"
                raise ValueError(f"It cannot adapt, {kept if fitted.chains[0].stages else 'no stage was of use'}.")
            truth, inputs = checked_outputs(y, fitted), self._checked(self._opened(X, fitted)[0], fitted)
            check_pair_lengths(inputs.shape[0], truth.shape[0])
            looked = (int(inputs.shape[0]), fitted.blocks(inputs), None)
            parts, said = self._met(fitted, looked, truth, learned=True)
            found = fitted.adapted(inputs, fitted.handed(truth), forgetting)
            self._fitted = replace(found, **parts, calibrated=fitted.calibrated if fitted.stale else found.state)
        warn_user(*said)
        return self

    def on(self, target: Any, inputs: Any = None) -> Staged:
        """Return this model on space of another shape, that of inputs and predictions alike; this one stays as it is.

        Points span the same box, as np.linspace does (a period without its last point, where the training lacked it),
        and those of the training are among them: 29 become 57 or 85. Intervals for the share of points (`sample`,
        `pooled`) stay; those that hold whole fields are refused on more values than they were calibrated for. Such a
        model does not adapt (`pcarann.spatial.resolution`).
        """
        fitted = self._require_fitted()
        if inputs is not None:
            raise ValueError("Stages see inputs and outputs on one grid: give its shape as `target`, and no `inputs`.")
        moved = stages_on(fitted, target, self.symmetry)
        grids = (moved.layout.input_grid, moved.layout.output_grid)
        found = copy(self)
        found.fitted_ = replace(moved, packing=None if moved.packing is None else moved.packing.on(*grids))
        return found

    def after_each(self, X: Array) -> list[Array]:
        """The first member's prediction before any stage and after each of them."""
        fitted = self.fitted_
        xp = fitted.place.xp
        plain, handed = self._opened(X, fitted)
        found = fitted.after_each(self._checked(plain, fitted))
        return [handed(xp.reshape(fields, (fields.shape[0], *fitted.output_grid))) for fields in found]

    @property
    def fitted_(self) -> FittedStages:
        """All that the fit found, in one record"""
        return self._found("fitted_")

    @fitted_.setter
    def fitted_(self, record: FittedStages) -> None:
        with writing(self):
            self._fitted = record

    @property
    def stages_(self) -> StagesReport:
        """What was settled, and what each stage gained on samples held out; print it"""
        return self._found("stages_").report

    @property
    def model_(self) -> Any:
        """The fitted surrogate that stages correct; None where they start from the mean field or the input"""
        return self._found("model_").start.model

    @property
    def fit_seconds_(self) -> dict[str, float]:
        """Seconds that the fit took"""
        return dict(self._found("fit_seconds_").seconds)

    def _found(self, name: str) -> FittedStages:
        if not hasattr(self, "_fitted"):
            raise AttributeError(f"{name} exists after fit only: this Staged is not fitted yet.")
        found: FittedStages = self._fitted
        return found

    def _checked(self, X: Array, fitted: FittedStages) -> Array:
        inputs: Array = check_fields(X, "X", fitted.place, grid=fitted.layout.input_grid, owner="Staged")[0]
        if said := fitted.warning(inputs):
            warn_user(said)
        return inputs

    def _blocks(self, X: Array, fitted: FittedStages) -> tuple[int, Iterable[Block]]:
        inputs = self._checked(X, fitted)
        return int(inputs.shape[0]), fitted.blocks(inputs)

    def _linearized(self, X: Array, fitted: FittedStages) -> Linearized:
        return fitted.linearized(self._checked(X, fitted))

    def _publish(self, **parts: Any) -> None:
        self._fitted = replace(self._fitted, **parts)

    def _described(self) -> tuple[Document, Tensors]:
        fitted = self.fitted_
        document, tensors = described_stages(fitted, self.get_params(deep=False))
        if fitted.start.model is not None:
            if not isinstance(fitted.start.model, PCARaNN):
                kind = type(fitted.start.model).__name__
                raise ValueError(f"Stages that start from a {kind} cannot be saved: a file holds those of a PCARaNN.")
            inner, parts = described(fitted.start.model.fitted_, fitted.start.model.get_params(deep=False))
            document |= {"model": inner}
            tensors |= {f"model/{name}": part for name, part in parts.items()}
        return document, tensors

    @property
    def _most(self) -> int | None:
        return None if self.max_samples is None else check_count(self.max_samples, "max_samples", least=FOLDS)

    def _some(self, inputs: Array, outputs: Array, seed: int, together: int) -> tuple[Array, Array, int]:
        """No more samples than asked for, those that belong together drawn one by one where there are too many."""
        most = self._most
        if most is None or inputs.shape[0] <= most:
            return inputs, outputs, together
        rows = spread(int(inputs.shape[0]), most, seed=seed)
        return taken(inputs, rows), taken(outputs, rows), 1

    def _start(
        self, inputs: Array, outputs: Array, scene: Scene, seed: int, together: int
    ) -> tuple[Start, Array | None]:
        """What stages correct, and a surrogate's û of the training samples, in the user's units."""
        xp = place_of(outputs).xp
        grids, same = (scene.layout.input_grid, scene.layout.output_grid), scene.layout.is_evolution
        if self.model is None:
            start = Start.simple(inputs, outputs, same)
        elif isinstance(self.model, str):
            if self.model not in ("mean", "input"):
                raise ValueError(f"model must be None, 'mean', 'input' or an estimator, got {self.model!r}.")
            if self.model == "input" and not same:
                raise ValueError(
                    f"model='input' needs inputs that hold a field of the outputs' shape, found {grids[0]} and "
                    f"{grids[1]}."
                )
            values = int(outputs.shape[1])
            start = Start(values=values) if self.model == "input" else Start(mean=xp.mean(outputs, axis=0))
        else:
            return Start.fitted(self.model, (inputs, outputs), grids, seed, together)
        return start.symmetric(scene), None


def _layouts(grid: Any, grids: tuple[tuple[int, ...], tuple[int, ...]], inputs: Array, outputs: Array) -> list[Layout]:
    """How fields may lie in space, the likeliest first."""
    if isinstance(grid, Mesh):
        return [Layout.on_mesh(*grids, MeshDomain.of(grid))]
    if grid is not None and not isinstance(grid, Grid):
        raise ValueError(f"grid must be None, a Grid or a Mesh, got {grid!r}.")
    options = grid or Grid()
    return ends_of(Layout.of(*grids, options.axes), options.boundary, options.axes, inputs, outputs)
