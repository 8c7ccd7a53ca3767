"""The four problems as the benchmark needs them: data from the cache, models by the runner's conventions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from floor import Products, Sizes

from pcarann.backend.arrays import Place, place_of
from pcarann.benchmark.paper.configurations import PROBLEMS, Problem, Variant
from pcarann.benchmark.paper.runs import fit_quietly, generate, paper_model, sample_errors
from pcarann.operator import PCARaNN
from pcarann.problems.dataset import OperatorData

__all__ = ["ADAPTED", "Case", "flat", "load_case", "sizes_of"]

Fields = np.ndarray[Any, Any]

ADAPTED = 200
"""New samples of the adaptation"""


@dataclass(frozen=True)
class Case:
    """One problem at one size, in a place."""

    problem: Problem
    train: OperatorData
    calibration: OperatorData
    test: OperatorData
    device: str | None
    quick: bool
    repeats: int
    products: Products
    """What tells the rate of matrix products"""

    @property
    def place(self) -> Place:
        """Where ours computes."""
        return place_of(None, self.device)

    def training_pair(self) -> tuple[Any, Any]:
        """Inputs and outputs, there already when the clock starts."""
        return self.place.put(self.train.inputs), self.place.put(self.train.outputs)

    def model(self, variant: Variant, members: int | None = None, **changed: Any) -> PCARaNN:
        """An unfitted model with the problem's parameters."""
        made = paper_model(self.problem, variant, members or self.problem.n_members, None)
        made.set_params(**changed)
        return made

    def fitted(self, variant: Variant, members: int | None = None, **changed: Any) -> PCARaNN:
        """A fitted model."""
        model = self.model(variant, members, **changed)
        fit(model, *self.training_pair())
        return model

    def error(self, prediction: Any, among: slice = slice(None)) -> float:
        """Mean relative L² error of predicted test fields, as the paper defines it for the problem."""
        truth = self.test.outputs[among]
        return float(sample_errors(self.problem, prediction.reshape(truth.shape), truth).mean())


def load_case(name: str, *, quick: bool, device: str | None = None, repeats: int = 1, products: Products) -> Case:
    """Read a problem's samples, or make them where the cache does not hold them."""
    problem = PROBLEMS[name].quick() if quick else PROBLEMS[name]
    train, calibration, test = generate(problem, device=device).split(*problem.sizes)
    return Case(problem, train, calibration, test, device, quick, repeats, products)


def fit(model: PCARaNN, inputs: Any, outputs: Any) -> PCARaNN:
    """Fit without the warning about clipped ranks, which the paper's numbers of modes cause by design."""
    fit_quietly(model, inputs, outputs)
    return model


def flat(fields: Fields) -> Fields:
    """(samples, values)"""
    return np.asarray(fields, dtype=float).reshape(len(fields), -1)


def sizes_of(case: Case, model: PCARaNN) -> Sizes:
    """The sizes that a fit really had, after ranks were clipped."""
    pcas = (model.input_pca_, model.output_pca_)
    return Sizes(
        samples=len(case.train),
        input_values=int(pcas[0].mean.shape[0]),
        output_values=int(pcas[1].mean.shape[0]),
        inputs=pcas[0].n_components,
        outputs=pcas[1].n_components,
        widths=case.problem.widths,
        members=len(model.ensemble_.members),
    )
