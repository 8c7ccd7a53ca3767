"""How far inputs lie from the training data: a surrogate should not extrapolate in silence.

An input can be new in one coordinate alone, so many statistics are looked at, and the worst counts:

    ± x_j, ± a_j   each latent coordinate, each column of a table, on both sides
    distance       √(N xᵀ(XᵀX)⁻¹x), all latents together, and those of each channel
    residual       ‖a − G(F(a))‖, what the modes miss of the field, and of each channel
    gap, nearest   how far the closest training values and samples are: holes in the data (`pcarann.uncertainty.holes`)

Each has a tail of its own. With q its 80 % quantile over reference samples and b its mean excess beyond q, a value s
lies (s − q)/b deep in an exponential tail. A parameter must not drown among many modes of a field, so statistics stand
in groups: columns, the leading latents of each channel and those behind them, distances, residuals, gaps, nearest. The
greatest depth in a group has a p-value among those of the reference, (1 + #{T_ref ≥ T}) / (n + 1), continued beyond the
largest by what the tail predicts; the least p-value of the groups is ranked once more among those of the reference. The
result is nearly uniform if the input is exchangeable with the training samples.

The reference must not have been seen. Samples that the PCA was not fitted to are taken as they are; of the others,
folds are looked at by the PCA of the rest (`pcarann.latent.crossfit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrc

from pcarann.backend.arrays import Array, to_host
from pcarann.latent.channels import latent_parts
from pcarann.latent.pca import PCA
from pcarann.uncertainty.holes import Holes
from pcarann.uncertainty.sight import Sight, Values

__all__ = ["LEAST_P", "LEVEL", "Names", "Novelty", "NoveltyTest", "Tails", "p_among", "shells", "tail_of", "with_ties"]

LEVEL = 0.01
"""p-value at which an input counts as new"""
_BODY = 0.8  # share of the reference that is no tail
_LEAST_TAIL = 0.1  # of the spread: a tail without any length would make every new value a surprise
_LEAST_UNIT = 1e-3  # of its size, by which a coordinate that never changed may change
LEAST_P = 1e-300
"""p-values end here"""
_SHELLS = (4, 16, 64)  # leading latents, whose tails must not be measured by those of the weak ones behind them
_AS_SMALL = 10.0  # times the least p-value, up to which that of another group says the same
_UNMOVED = 5.0  # such units a coordinate that never changed is from its tail
_LEAST_UPPER, _OF_ONE = 4, 2.0  # values of a tail, and what its length is at least, times the number of samples
_TIE = 1e-9  # of a depth
_FEW = 20  # samples in a reference, of which half of the tail counts
_REAL_RESIDUAL = 1e-3  # share of a field that its modes may miss before it counts as new


@dataclass(frozen=True)
class Novelty:
    """How far inputs lie from the training data, (samples,) each."""

    residual: Array
    """What the input modes miss of the field, ‖a − G(F(a))‖, in units of the farthest training sample"""
    distance: Array
    """Distance of the latents from their centre, each coordinate in units of its spread, in the same units"""
    p_value: Array
    """Probability that an input like the training samples is as far out in any respect: small means new"""
    reasons: tuple[str, ...] = ()
    """For each input, in what respect it is farthest out, new or not"""

    def __str__(self) -> str:
        """Say how many inputs are new, and in what respect the farthest of them."""
        p = to_host(self.p_value)
        new, first = int((p <= LEVEL).sum()), int(p.argmin())
        farthest = f"input {first} is farthest out, p = {p[first]:.2g}: {self.reasons[first]}"
        return f"{new} of {len(p)} inputs have p ≤ {LEVEL:g}; {farthest}."


@dataclass(frozen=True)
class Names:
    """Of what is seen of inputs."""

    columns: tuple[str, ...]
    channels: tuple[str, ...]
    unit: float = 1.0
    """What the inputs were divided by"""
    shown: tuple[tuple[float, float], ...] = ()
    """Offset and factor by which columns that were made of others are read, where there are such"""
    mode: Callable[[int], tuple[str, str]] = lambda at: (f"latent {at}", "")
    """What a latent that is looked at is a mode of, and in which part of the domain it is largest"""
    missed: Callable[[int, int], str] = lambda i, c: ""
    """Where the modes of a channel miss most of input i"""


@dataclass(frozen=True)
class Tails:
    """The tail of each statistic over the reference, (statistics,) each."""

    body: Values
    """q"""
    excess: Values
    """b"""

    @classmethod
    def of(cls, statistics: Values, least: Values | float = 0.0) -> Tails:
        """Measure (reference, statistics); tails have a least length, (statistics,)."""
        body = np.quantile(statistics, _BODY, axis=0)
        beyond = np.clip(statistics - body, 0.0, None)
        count = np.maximum((beyond > 0).sum(axis=0), 1)
        excess = np.maximum(beyond.sum(axis=0) / count, np.maximum(_least_excess(statistics), least))
        return cls(np.where(_constant(statistics), body + _UNMOVED * excess, body), excess)

    def depth(self, statistics: Values) -> Values:
        """How deep in its tail each of (samples, statistics) lies."""
        return (statistics - self.body) / self.excess

    def left_out_depth(self, statistics: Values, least: Values | float = 0.0) -> Values:
        """The depth of the reference itself, each value in the tail of the others."""
        beyond = np.clip(statistics - self.body, 0.0, None)
        count, total = (beyond > 0).sum(axis=0), beyond.sum(axis=0)
        others = (total - beyond) / np.maximum(count - (beyond > 0), 1)
        shortest = np.maximum(_least_excess(statistics), least)
        depth: Values = (statistics - self.body) / np.maximum(others, shortest)
        return depth


def p_among(depth: Values, reference: Values) -> Values:
    """p-values of depths among a reference, ascending, continued beyond the largest by what its tail predicts.

    What k excesses of mean b say of the next one, their mean being uncertain, is (1 + e/kb)^(−k).

    >>> print(p_among(np.array([0.5, 8.5, 20.0]), np.arange(1.0, 10.0)).round(4))
    [1.    0.2   0.012]
    """
    tail, count = tail_of(reference)
    above = len(reference) - np.searchsorted(with_ties(reference), depth, side="left")
    beyond = np.maximum(depth - reference[-1], 0.0)
    p: Values = (1 + above) / (len(reference) + 1) * (1 + beyond / (count * tail)) ** -count
    # So far out that squares are no numbers any more.
    return np.where(np.isfinite(depth), np.maximum(p, LEAST_P), LEAST_P)


def with_ties(reference: Values) -> Values:
    """A reference raised by rounding, so that inputs equal to training samples tie with them."""
    raised: Values = reference + _TIE * (1.0 + np.abs(reference))
    return raised


def tail_of(reference: Values) -> tuple[float, int]:
    """The mean excess b of the tail of a reference, ascending, and for how many values k of it this counts.

    A few samples do not tell whether their tail is exponential: it counts for fewer values than it has.
    """
    samples = len(reference)
    upper = reference[max(0, min(int(_BODY * samples), samples - _LEAST_UPPER)) :]
    count = len(upper) * samples / (samples + _FEW)
    least = max(_LEAST_TAIL, _OF_ONE / samples)  # depths have tails of about 1
    return max(float((upper - upper[0]).mean()), least), max(1, round(count))


def p_among_others(depth: Values) -> Values:
    """p-values of depths, each among the others."""
    ordered = np.sort(depth)
    p: Values = (len(depth) - np.searchsorted(ordered, depth, side="left")) / len(depth)
    if len(depth) > 1 and ordered[-1] > ordered[-2]:
        p[int(depth.argmax())] = p_among(ordered[-1:], ordered[:-1])[0]
    return p


def _least_excess(statistics: Values) -> Values:
    size = np.abs(statistics).max(axis=0)
    moved = np.maximum(_LEAST_TAIL * statistics.std(axis=0), np.finfo(float).tiny)
    least: Values = np.where(_constant(statistics), _LEAST_UNIT * np.where(size > 0, size, 1.0), moved)
    return least


def _constant(statistics: Values) -> Any:
    """Whether a statistic is the same for all samples, but for rounding."""
    return np.ptp(statistics, axis=0) <= 1e-12 * np.abs(statistics).max(axis=0)


@dataclass(frozen=True)
class NoveltyTest:
    """How far the training inputs reach."""

    tails: Tails
    groups: tuple[int, ...]
    """Statistics in each group"""
    depths: Values
    """Greatest depth of the reference in each group, ascending, (groups, reference)"""
    surprises: Values
    """−log of their least p-value, ascending, (reference,)"""
    floor: float
    """Residual that counts as none"""
    farthest: tuple[float, float]
    """The largest residual and latent distance of the training inputs"""
    ranges: tuple[Values, Values]
    """Least and largest training value of each column, or constant channel, then of each latent that is looked at"""
    holes: Holes | None = None
    """None in older files"""

    @classmethod
    def of(
        cls,
        reference: Sight,
        floor: float,
        farthest: tuple[float, float],
        ranges: Sequence[Values],
        holes: tuple[Holes, Values],
    ) -> NoveltyTest:
        """Measure what is seen of samples that the PCA did not see, and their statistics of holes."""
        statistics, groups = _statistics(reference, floor, holes[0].sizes, holes[1])
        least = np.concatenate([np.zeros(statistics.shape[1] - holes[1].shape[1]), holes[0].least])
        tails = Tails.of(statistics, least)
        depths, _ = _by_group(tails.left_out_depth(statistics, least), groups)
        surprises = np.sort(-np.log(np.stack([p_among_others(one) for one in depths]).min(axis=0)))
        ends = (ranges[0], ranges[1])
        return cls(tails, groups, np.sort(depths, axis=1), surprises, floor, farthest, ends, holes[0])

    @staticmethod
    def floor_of(pca: PCA, samples: int) -> float:
        """Residual that counts as none for a PCA of so many samples."""
        return _REAL_RESIDUAL * math.sqrt(pca.energy / samples)

    def novelty(self, seen: Sight, names: Names) -> Novelty:
        """Measure inputs, which have these names."""
        p_value, worst = self.p_values(seen)
        unit = max(self.farthest[0], self.floor) or 1.0
        residual = np.linalg.norm(seen.residual, axis=1) / unit
        distance = np.linalg.norm(seen.distance, axis=1) / (self.farthest[1] or 1.0)
        reasons = tuple(self.reason(seen, i, int(at), names) for i, at in enumerate(worst))
        return Novelty(residual, distance, p_value, reasons)

    def p_values(self, seen: Sight) -> tuple[Values, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
        """The p-value of each input, and the statistic that is farthest out."""
        with np.errstate(over="ignore", invalid="ignore"):
            holes = (self.holes.sizes, self.holes(seen)) if self.holes is not None else ((0, 0), None)
            statistics, groups = _statistics(seen, self.floor, *holes)
        depth = self.tails.depth(np.where(np.isfinite(statistics), statistics, math.inf))
        depths, where = _by_group(depth, groups)
        p = np.stack([p_among(one, reference) for one, reference in zip(depths, self.depths, strict=True)])
        least = p.min(axis=0)
        # A column says more than a latent that moves with it, and everything else more than a distance to all samples.
        telling = p
        if self.holes is not None:
            told = (p[:-1] <= LEVEL / len(p)).any(axis=0)
            telling = np.concatenate([p[:-1], np.where(told, 1.0, p[-1:])])
        named = (telling <= _AS_SMALL * telling.min(axis=0)).argmax(axis=0)
        # Far out, what the groups say together (Bonferroni) is sharper than a second tail behind the first.
        ranked = np.minimum(p_among(-np.log(least), self.surprises), len(p) * least)
        return ranked, where[named, np.arange(p.shape[1])]

    def gap(self, seen: Sight) -> Values:
        """How deep inputs lie in a gap between training values of a column, in spreads of the column, (samples,)."""
        return np.zeros(len(seen.columns)) if self.holes is None else self.holes.gap(seen)

    def is_alarmed(self, p: Values) -> bool:
        """Whether inputs with these p-values lie outside the training data by more than chance.

        Of n inputs like the training samples, n · LEVEL lie beyond the level, which is itself estimated from the
        reference. More than chance allows is too many, and so is a single one beyond LEVEL / n.
        """
        new = int((p <= LEVEL).sum())
        if not new:
            return False
        level = LEVEL + 2 * math.sqrt(LEVEL / len(self.surprises))
        by_chance = bdtrc(new - 1, len(p), min(level, 1.0))  # so many or more of them
        return bool(by_chance <= LEVEL or p.min() <= LEVEL / len(p))

    def warning(self, seen: Sight, p: Values, statistic: int, names: Names) -> str | None:
        """Say that inputs lie outside the training data where that is more than chance; None where it is not.

        What is seen is the input of least p-value alone, with the statistic that it is farthest out in.
        """
        if not self.is_alarmed(p):
            return None
        new, first = int((p <= LEVEL).sum()), int(p.argmin())
        why = f"p = {p[first]:.1g}: {self.reason(seen, 0, statistic, names)}"
        if len(p) == 1:
            return (
                f"This input lies outside the training data, {why}. "
                "Its prediction is an extrapolation; its interval is widened (see novelty)."
            )
        return (
            f"{new} of {len(p)} inputs lie outside the training data (p ≤ {LEVEL:g}). The farthest is input {first}, "
            f"{why}. Such predictions are extrapolations; their intervals are widened (see novelty)."
        )

    def reason(self, seen: Sight, i: int, statistic: int, names: Names) -> str:
        """Say what a statistic is of, and what it is for input i."""
        columns, sizes = seen.columns.shape[1], [part.stop - part.start for part in seen.parts]
        if statistic < 2 * columns:
            return self._beside_range(seen, i, statistic % columns, names)
        start = 2 * columns
        for c, (size, part) in enumerate(zip(sizes, seen.parts, strict=True)):
            for shell in shells(part):
                count = shell.stop - shell.start
                if statistic < start + 2 * count:
                    return self._beside_modes(seen, i, shell.start + (statistic - start) % count, names)
                start += 2 * count
            if size > 1 and statistic == start:
                reach = np.maximum(np.abs(self.ranges[0]), np.abs(self.ranges[1]))[columns:][part]
                farthest = part.start + int(np.abs(seen.x[i, part] / np.where(reach > 0, reach, 1.0)).argmax())
                what, where = names.mode(farthest)
                far = f"{what} lies {seen.distance[i, c]:.3g} standard deviations from the mean of the training data"
                return f"{far}, all modes together, most{where}" if where else f"{far}, all latents together"
            start += size > 1
        c = statistic - start
        if c < seen.residual.shape[1]:
            of = f" of {names.channels[c]}" if len(sizes) > 1 else ""
            most = self.farthest[0]
            beside = f", {seen.residual[i, c] / most:.3g} times that of the farthest training sample" if most else ""
            return f"a part of the field{of} is unlike all training samples{names.missed(i, c)}{beside}"
        return self._hole(seen, i, c - seen.residual.shape[1], names)

    def _beside_range(self, seen: Sight, i: int, at: int, names: Names) -> str:
        low, high = sorted(_read(float(end[at]), at, names) for end in self.ranges)
        value = _read(float(seen.columns[i, at]), at, names)
        return f"{names.columns[at]} is {value:.4g}, training range {low:.4g} to {high:.4g}"

    def _beside_modes(self, seen: Sight, i: int, at: int, names: Names) -> str:
        """A latent beside its range, in units of this range."""
        low, high = (float(end[seen.columns.shape[1] + at]) for end in self.ranges)
        what, where = names.mode(at)
        value = float(seen.x[i, at])
        beyond = max(value - high, low - value) / max(high - low, LEAST_P)
        far = f"{beyond:.2g} times the training range beyond it" if beyond > 0 else "close to the end of its range"
        return f"{what} is {far}{where}"

    def _hole(self, seen: Sight, i: int, at: int, names: Names) -> str:
        """A gap that a coordinate lies in, or the distance to the nearest sample."""
        holes = self.holes
        assert holes is not None
        gaps = holes.sizes[0]
        if at >= gaps:
            far, usual = holes.nearest(seen.latents[i : i + 1])[0, at - gaps], holes.nearest.usual[at - gaps]
            times = f"{far / usual:.3g} times as far as usual" if usual > 0 else "far, where training samples coincide"
            return f"no training sample is near: the closest is {times}"
        columns = gaps - len(holes.latents)
        value = float(holes.coordinates(seen)[i, at])
        ends = holes.gaps.around(at, value)
        if at >= columns:
            what, where = names.mode(holes.latents[at - columns])
            return f"{what} lies in a gap of the training data{where}"
        low, high = sorted(_read(end, at, names) for end in ends)
        kind = "the levels " if holes.gaps.is_levels(at) else ""
        between = f"{names.columns[at]} = {_read(value, at, names):.4g} lies between {kind}{low:.4g} and {high:.4g}"
        return f"{between} of the training data" if kind else f"{between}, where the training data have no values"


def _read(value: float, at: int, names: Names) -> float:
    """A value of a column as the user reads it."""
    offset, factor = names.shown[at] if names.shown else (0.0, 1.0)
    return offset + names.unit * factor * value


def _statistics(
    seen: Sight, floor: float, sizes: tuple[int, int], holes: Values | None
) -> tuple[Values, tuple[int, ...]]:
    """All statistics of inputs, (samples, statistics), and how many stand in each group; so many are of holes."""
    groups = [np.concatenate([seen.columns, -seen.columns], axis=1)]
    for c, part in enumerate(seen.parts):
        for shell in shells(part):
            groups.append(np.concatenate([seen.x[:, shell], -seen.x[:, shell]], axis=1))
        if part.stop - part.start > 1:  # one latent alone is its own distance
            groups.append(seen.distance[:, c : c + 1])
    groups.append(np.maximum(seen.residual, floor))
    if holes is not None:
        groups += [holes[:, : sizes[0]], holes[:, sizes[0] :]]
    groups = [group for group in groups if group.shape[1]]
    return np.concatenate(groups, axis=1), tuple(group.shape[1] for group in groups)


def shells(part: slice) -> list[slice]:
    """The latents of a channel in groups: the leading ones, those behind them, and so on."""
    ends = [*(part.start + end for end in _SHELLS if end < part.stop - part.start), part.stop]
    return [slice(start, end) for start, end in zip([part.start, *ends], ends, strict=False)]


def _by_group(depth: Values, groups: Sequence[int]) -> tuple[Values, Any]:
    """The greatest of (samples, statistics) depths in each group, (groups, samples), and which statistic it is."""
    parts = latent_parts(groups)
    greatest = np.stack([depth[:, part].max(axis=1) for part in parts])
    return greatest, np.stack([part.start + depth[:, part].argmax(axis=1) for part in parts])
