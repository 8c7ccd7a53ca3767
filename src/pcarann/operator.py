"""PCARaNN, the estimator that users hold.

fields a ──F──▶ latents x ──h──▶ features ──V──▶ latents y ──G──▶ fields u
         PCA            random, fixed     least squares      PCA
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from pcarann.attributes import FittedAttributes
from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linearized import Linearized
from pcarann.backend.locking import writing
from pcarann.backend.progress import progress
from pcarann.containers.elsewhere import AtPoints, OfParts
from pcarann.containers.exchange import checked_outputs, marks_of, refuse_unaligned
from pcarann.containers.packing import packed
from pcarann.containers.scaling import OutputCode
from pcarann.derivatives.latent_model import linearized_at
from pcarann.fitted import Fitted
from pcarann.fitting import plain_samples, train
from pcarann.options import Adapt, Fields, Kernel
from pcarann.scale.calibration import lazy_latents, streamed
from pcarann.scale.engine import passes_shown
from pcarann.scale.kinds import is_lazy
from pcarann.scale.predictions import lazy_novelty
from pcarann.scale.samples import lazy_samples, scale_report
from pcarann.settings import USUAL_COMPONENTS, Settings, packed_options, settled_fields
from pcarann.storage.document import described
from pcarann.storage.formats import Document, Tensors
from pcarann.surrogate import Surrogate
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.bands import Block
from pcarann.uncertainty.conformal import PartsCalibration
from pcarann.uncertainty.look import Look
from pcarann.uncertainty.novelty import LEVEL, Novelty
from pcarann.uncertainty.outliers import Outliers, check_outliers
from pcarann.uncertainty.watching import Come, Looked
from pcarann.validation import check_count, check_number, check_pair_lengths, check_seed, warn_user

if TYPE_CHECKING:
    from pcarann.recipe.report import AutoReport
    from pcarann.recipe.verdict import AutoVerdict
    from pcarann.scale.report import ScaleReport

__all__ = ["PCARaNN"]


class PCARaNN(FittedAttributes, Surrogate):
    """Surrogate of a parametric PDE: PCA, fixed random features, one least-squares solve.

    Inputs and outputs are arrays whose first axis is the sample; the rest may be any grid, or a plain table of
    parameters. The model lives where the training data are (NumPy, or torch on a GPU), or on `device`; predictions
    come back as the kind of array that was handed in.

    Parameters
    ----------
    n_components : int, float or pair of these
        Modes of the input and output PCA: a number, or a share of the energy in (0, 1). No more than a field has
        values.
    widths : pair of int
        Neurons of the two random layers, n₁ and n₂.
    n_members : int
        Members of the ensemble, K. Intervals are sharpest with about 20; one is allowed, whose standard deviation is
        that of left-out residuals.
    scales : "refined", Refine, "energy", pair of float, or ("gain", g₁, g₂)
        Scales r₁, r₂ of the layers: chosen on a validation loss (a `Refine` says how), by energy matching alone (the
        paper's rule, which depends on the unit of the outputs), given, or such that the arguments of tanh have root
        mean squares g₁ and g₂, which does not depend on the widths.
    ridge : None, float, "gcv" or "refined"
        λ of the final readout; 0 is least squares of minimum norm. Or chosen: in closed form by generalised
        cross-validation, or on the validation loss together with the scales (`ridge_`). None is 0 for random layers
        and "gcv" for a kernel, whose length is chosen together with it.
    regressor : "random", "kernel" or Kernel
        Random layers, or a Matérn kernel on the latents in their place: the limit of many features, and a good
        choice for few samples. `widths` and `scales` are of no effect then. A `Kernel` gives its length.
    linear : bool
        Whether the latents themselves, whitened, stand beside the features.
    relevance : float, "learned", "channels" or array
        How much the input latents count. A power α means weights s_j^(−α), s_j being their spread: 0 takes them as
        they are, 1 whitens them, a negative power attends to the leading ones even more. "learned" finds a metric in
        which the directions that move the output count, "channels" a weight for each channel
        (`pcarann.features.relevance`); `sensitivity_` shows what was found. An array gives weights (latent,) or a
        metric (latent, latent).
    symmetry : None or Symmetry
        Transformations of (input, output) pairs under which the problem does not change: copies of the samples
        under them are fitted too, and predictions are averaged over them.
    fields : None or Fields
        How fields are read: inputs by channels, smoothed, weighted by a quadrature.
    adapt : None or Adapt
        How `partial_fit` takes new samples in: its ridge, where it starts, what it forgets.
    random_state : int, None or NumPy random generator
        Seed of the hidden weights and of the validation split. The same seed gives the same model everywhere.
    device : None, "cpu", "cuda" or "cuda:N"
        None stays where the data are.
    verbose : bool
        Show progress while fitting.

    Examples
    --------
    >>> import numpy as np
    >>> from pcarann import PCARaNN
    >>> from pcarann.metrics import relative_l2
    >>> x = np.linspace(0, 1, 64)
    >>> frequency = np.random.default_rng(0).uniform(1, 3, (300, 1))
    >>> a, u = np.sin(frequency * x), np.cos(frequency * x) ** 2
    >>> model = PCARaNN(n_components=0.999999, widths=(100, 50), n_members=5).fit(a[:200], u[:200])
    >>> relative_l2(model.predict(a[200:]), u[200:]) < 1e-3
    True
    """

    auto_report_: AutoReport | AutoVerdict
    """What `auto` tried and chose"""
    scale_report_: ScaleReport | None
    """What a fit to lazy arrays did; None of one in memory"""

    def __init__(
        self,
        n_components: Any = USUAL_COMPONENTS,
        widths: tuple[int, int] = (500, 200),
        n_members: int = 20,
        scales: Any = "refined",
        ridge: float | Literal["gcv", "refined"] | None = None,
        regressor: Literal["random", "kernel"] | Kernel = "random",
        linear: bool = False,
        relevance: Any = 0.0,
        symmetry: Symmetry | None = None,
        fields: Fields | None = None,
        adapt: Adapt | None = None,
        random_state: Any = 0,
        device: str | None = None,
        verbose: bool = False,
    ):
        self.n_components = n_components
        self.widths = widths
        self.n_members = n_members
        self.scales = scales
        self.ridge = ridge
        self.regressor = regressor
        self.linear = linear
        self.relevance = relevance
        self.symmetry = symmetry
        self.fields = fields
        self.adapt = adapt
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Array, y: Array, *, together: int = 1) -> PCARaNN:
        """Fit to input fields X and output fields y, each (samples, *grid); `fit_report_` says how good the fit is.

        So many samples in a row may belong `together`, as the snapshots of a trajectory do, and are held out so.
        """
        with writing(self):
            asked = Settings.of(self), check_count(together, "together"), self.device
            plain = None if is_lazy(X, y) else plain_samples(X, y, *asked)
            with progress(self.verbose) as tick, passes_shown(tick):
                settings, samples, packing = lazy_samples(X, y, *asked) if plain is None else plain
                self._fitted = fitted = replace(train(settings, samples, tick), packing=packing)
            self.__dict__.pop("auto_report_", None)
            self.scale_report_ = scale_report(samples) if is_lazy(X, y) else None
        if fitted.report is not None and (warning := fitted.report.warning):
            warn_user(warning)
        return self

    @classmethod
    def auto(
        cls,
        X: Array,
        y: Array,
        *,
        budget: float = 60.0,
        symmetry: Symmetry | None = None,
        random_state: Any = 0,
        device: str | None = None,
        verbose: bool = False,
    ) -> PCARaNN:
        """Choose all options by validation, within about `budget` seconds in all, and return the fitted model.

        `pcarann.auto` does this too and compares the outcome with stages that see space.

        `auto_report_` of the model says what was tried, left out and chosen: print it. The estimator as it comes is
        always among the finalists. A `symmetry` that is offered is used only where it lowers the validation error.
        """
        from pcarann.recipe.search import fitted_or_plain, searched

        model: PCARaNN
        seed = check_seed(random_state)
        fixed: dict[str, Any] = {"random_state": seed, "device": device}
        pair = packed(X, y, device=device, seed=seed)
        with progress(verbose) as tick:
            model, report = searched(
                cls,
                pair.X,
                pair.y,
                budget=budget,
                symmetry=symmetry,
                fixed=fixed | packed_options(pair),
                tick=lambda name: tick(name, 0, None),
                smooth=pair.is_plain,
            )
        model.verbose = verbose
        model.set_params(fields=settled_fields(model.fields, pair))
        plain = cls(**fixed | packed_options(pair), verbose=verbose)
        plain.set_params(fields=settled_fields(plain.fields, pair))
        model = fitted_or_plain(model, plain, X, y, report)
        report.seconds += model.fit_seconds_["total"]
        model.auto_report_ = report
        return model

    def partial_fit(self, X: Array, y: Array, *, outliers: Outliers | None = None) -> PCARaNN:
        """Adapt the readout to new samples by recursive least squares, as `adapt` says; PCAs and random layers stay.

        A calibrated model is judged by these samples before it learns them: its intervals follow them, and `monitor`
        reports its errors. Samples with outputs far outside everything seen before are not learned, with a warning,
        unless several in a row agree (`pcarann.uncertainty.outliers`). `outliers` overrides that option of `adapt`. On
        a model that is not fitted yet, this is `fit`.
        """
        with writing(self):
            if not hasattr(self, "_fitted"):
                return self.fit(X, y)
            if is_lazy(X, y):
                self._fitted = streamed(self, self._fitted, "partial_fit", X, y, outliers=outliers).fitted_
                return self
            fitted = self._fitted
            adapt = Settings.of(self, seed=fitted.feature_map.random_seed).adapt
            skipping = adapt.outliers if outliers is None else check_outliers(outliers, "outliers")
            look, outputs = self._new_pairs(X, y, fitted)
            plain = self._opened(X, fitted)[0]
            come = Come(self._seen(look, fitted), outputs, lambda: marks_of(plain, outputs, fitted))
            met = self._met(fitted, come, learned=True, outliers=skipping)
            pairs, held = met.sifted.learned(fitted.held, look.inputs, outputs)
            found = fitted.adapted(pairs[0], pairs[1], adapt) if int(pairs[0].shape[0]) else fitted
            calibrated = fitted.calibrated if fitted.stale else found.state
            self._fitted = replace(found, **met.parts, calibrated=calibrated, held=held)
        warn_user(*met.said)
        return self

    def refit_readout(self, X: Array, y: Array, ridge: float | None = None) -> PCARaNN:
        """Refit the readout at once to all samples learned so far and these: the batch peer of `partial_fit`."""
        with writing(self):
            fitted = self._require_fitted()
            chosen = fitted.ridge if ridge is None else check_number(ridge, "ridge", least=0.0)
            new = None if is_lazy(X, y) else self._new_pairs(X, y, fitted)
            pairs = lazy_latents(self, X, y) if new is None else fitted.latent_pairs(new[0].inputs, new[1])
            self._fitted = fitted.refitted(pairs, chosen)
        return self

    def on(self, target: Any, inputs: Any = None) -> PCARaNN:
        """Return this model with predictions on another grid of the same domain; this one stays as it is.

        Where outputs lie on a mesh, `target` is another mesh or an array of points inside it, in its coordinates. Else
        `target` is a tuple, the points along each of the last axes of an output, or an array (n, axes) of points in the
        unit box that these axes span: then outputs are (samples, n), behind axes that stay. Grids are
        linspace(0, 1, points), both ends among them, those of a period too. `inputs` is the shape of the last axes of
        the inputs that will be given. Intervals for the share of points (`sample`, `pooled`) stay; those that hold
        whole fields are refused on more values than they were calibrated for. Such a model does not adapt.
        """
        fitted = self._require_fitted()
        packing, mesh = fitted.packing, self.mesh_
        if packing is not None:
            packing.refuse_to_move(inputs is not None)
        code = None if packing is None else packing.output_code
        if isinstance(code, OutputCode):
            target, code, mesh = OfParts.each(code, target, mesh)
        elif mesh is not None:
            target, mesh = AtPoints.within(mesh, fitted.output_grid, target)
        moved = fitted.on(target, inputs, self.symmetry)
        if packing is not None and isinstance(code, OutputCode):
            packing = packing.moved(code, mesh)
            if isinstance(moved.calibration, PartsCalibration):
                moved = replace(moved, calibration=replace(moved.calibration, sizes=code.sizes))
        elif packing is not None:
            points = isinstance(target, AtPoints) or len(np.shape(target)) > 1
            packing = packing.on(tuple(moved.ensemble.input_pca.grid), moved.output_grid, mesh, points)
        found = copy(self)
        found.fitted_ = replace(moved, packing=packing)
        return found

    def novelty(self, X: Array) -> Novelty:
        """How far inputs lie from the training data: for each a p-value, small where it is new, and the reason."""
        fitted = self._require_fitted()
        if is_lazy(X):
            return cast(Novelty, lazy_novelty(self, fitted, X))
        place = place_of(X if fitted.packing is None else fitted.packing.inputs.opened(X, "X").first)
        X = self._opened(X, fitted)[0]
        found: Novelty | None = fitted.novelty(fitted.look(fitted.checked(X)))
        if found is None and fitted.is_elsewhere:
            raise ValueError("Values on another grid have no ranges to compare with: ask the model this one came from.")
        if found is None:
            raise ValueError(
                "This model was saved by an older pcarann, which did not keep what novelty needs: fit again."
            )
        numbers = ("residual", "distance", "p_value")
        return replace(found, **{name: place.put(getattr(found, name)) for name in numbers})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.input_tags.three_d_array = True
        return tags

    def _look(self, X: Array, fitted: Fitted) -> Look:
        """Checked and encoded inputs; a warning where they lie outside the training data."""
        look = fitted.look(fitted.checked(X))
        if said := fitted.warning(look):
            warn_user(said)
        return look

    def _new_pairs(self, X: Array, y: Array, fitted: Fitted) -> tuple[Look, Array]:
        """New samples, checked, (samples, values) each, and the inputs encoded."""
        refuse_unaligned(X, y, fitted)
        if fitted.is_elsewhere:
            raise ValueError(
                "A model on another grid cannot adapt: adapt the one that it came from, and call `on` again."
            )
        outputs = checked_outputs(y, fitted)
        look = self._look(self._opened(X, fitted)[0], fitted)
        check_pair_lengths(look.inputs.shape[0], outputs.shape[0])
        return look, outputs

    def _mean(self, X: Array, fitted: Fitted) -> Array:
        return fitted.ensemble.mean_fields(self._look(X, fitted).orbit)

    def _blocks(self, X: Array, fitted: Fitted) -> tuple[int, Iterable[Block]]:
        return self._looked(X, fitted)[:2]

    def _looked(self, X: Array, fitted: Fitted) -> Looked:
        return self._seen(self._look(X, fitted), fitted)

    @staticmethod
    def _seen(look: Look, fitted: Fitted) -> Looked:
        novel = None if look.p is None else (look.p <= LEVEL).astype(float)
        return int(look.inputs.shape[0]), fitted.blocks(look), novel

    def _member_blocks(
        self, X: Array, fitted: Fitted, members: bool, directions: bool
    ) -> Iterable[tuple[slice, list[Array]]]:
        return fitted.ensemble.member_blocks(self._look(X, fitted).orbit, members, directions)

    def _linearized(self, X: Array, fitted: Fitted) -> Linearized:
        return linearized_at(fitted, self._look(X, fitted))

    def _described(self) -> tuple[Document, Tensors]:
        fitted = self.fitted_
        Settings.of(self, seed=fitted.feature_map.random_seed)  # what a file could not describe is refused
        return described(fitted, self.get_params(deep=False))

    def _publish(self, **parts: Any) -> None:
        self._fitted = replace(self._fitted, **parts)
