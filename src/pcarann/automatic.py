"""`auto`: all options chosen by validation, among latent models and stages that see space, within a budget."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

from pcarann.backend.progress import progress
from pcarann.containers.packing import packed
from pcarann.contest import Contest
from pcarann.mesh.mesh import Mesh
from pcarann.operator import PCARaNN
from pcarann.recipe.search import fitted_or_plain
from pcarann.scale.kinds import refuse_lazy
from pcarann.settings import packed_options, settled_fields
from pcarann.staged import Staged
from pcarann.symmetry.generators import Symmetry
from pcarann.validation import check_kind, check_number, check_seed, warn_user

__all__ = ["auto"]


def auto(
    X: Any,
    y: Any,
    *,
    budget: float = 60.0,
    mesh: Any = None,
    symmetry: Symmetry | None = None,
    random_state: Any = 0,
    device: str | None = None,
    verbose: bool = False,
) -> PCARaNN | Staged:
    """Choose a surrogate and all its options by validation, within about `budget` seconds in all, and fit it.

    Latent models are searched (`PCARaNN.auto`), and stages that see space (`Staged`) are tried where inputs and outputs
    share axes; whichever has the lower error on samples held out comes back. `auto_report_` says what was tried on both
    sides, and why the winner won: print it. A `symmetry` that is offered is used only where it lowers the error. Fields
    on a `mesh` are seen there, and weighed by its quadrature. A candidate that raises an error is left out, and the
    report names it with the error; where all of them fail, `PCARaNN` as it comes is fitted.
    """
    check_number(budget, "budget", above=0.0)
    refuse_lazy("auto", X, y)
    check_kind(symmetry, "symmetry", Symmetry)
    begun = time.perf_counter()
    seed = check_seed(random_state)
    fixed: dict[str, Any] = {"random_state": seed, "device": device}
    mesh = None if mesh is None else Mesh.of(mesh)
    pairs = [partial(packed, X, y, mesh=mesh, in_space=space, device=device) for space in (False, True)]
    latent = pairs[0](seed=seed)
    with progress(verbose) as tick:
        contest = Contest(
            latent, begun=begun, budget=budget, symmetry=symmetry, fixed=fixed, tick=lambda name: tick(name, 0, None)
        )
        if latent.packing is not None:
            contest.stack(pairs[1])
        model = contest.run()
        verdict = contest.verdict
        if isinstance(model, Staged):
            verdict.chosen = str(model.stages_)
            model.fitted_ = replace(model.fitted_, packing=contest.packing)
            if (told := model.fitted_.fit_report) is not None and (warning := told.warning):
                warn_user(warning)
        else:
            model.set_params(fields=settled_fields(model.fields, latent))
            plain = PCARaNN(**fixed | packed_options(latent))
            plain.set_params(fields=settled_fields(plain.fields, latent))
            model = fitted_or_plain(model, plain, X, y, verdict.latent)
    model.verbose = verbose
    verdict.seconds = time.perf_counter() - begun
    verdict.report = getattr(model, "fit_report_", None)
    model.auto_report_ = verdict
    return model
