"""The fit of an ensemble of chains.

A fifth of the samples is held out for small trials, which settle what stages see. One chain then chooses its ridges and
its length on them, and all members are fitted to all samples with these ridges and random weights of their own. With a
judge, which looks at whole chains, every member chooses its own ridges and is kept as it was judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.memory import refuse_beyond
from pcarann.backend.progress import Tick
from pcarann.backend.random import permutation, spread
from pcarann.latent.units import Units
from pcarann.spatial.bands import Sums
from pcarann.spatial.chain import Chain, Chooser, HeldOut, Judged, Known, Plan, Step, grown, relative_error
from pcarann.spatial.channels import Channels, Sight
from pcarann.spatial.choice import Settled, settle
from pcarann.spatial.layout import Layout
from pcarann.spatial.report import StagesReport
from pcarann.spatial.stage import Scene, Triple
from pcarann.spatial.start import Start, mean_field
from pcarann.spatial.terms import Terms

__all__ = ["Grown", "Judge", "Wanted", "fit_stages", "held_fields", "held_out", "judge_of_chains"]

Judge = Callable[[Chain], float]
"""The error of a chain, of roll-outs for example"""

_RIDGES = tuple(10.0**-n for n in range(1, 13))
_JUDGED_RIDGES = tuple(10.0**-n for n in range(4, 15))
_TRIED_RIDGES = tuple(10.0**-n for n in range(2, 13, 2))
_LEAST_GAIN = 0.01
_TRIED = (320, 96, 48, 2)  # samples, samples held out, features and stages of a trial
_TRIED_VALUES = 1 << 17, 1 << 21  # of all fields of a trial: half the samples are enough beyond, fewer still here
_AVERAGED = 4  # copies while ridges are chosen, which more would hardly change
_MISSED = 100  # samples whose residual fields are kept, until their second moment is known
_STREAM = (-26,)


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    n_stages: int
    n_features: int
    n_members: int
    channels: Channels | None
    seed: int
    evolving: bool
    """Whether û starts as the input"""
    terms: Terms | None = None
    keep_sums: bool = False
    tick: Tick = lambda stage, done, total: None

    def __post_init__(self) -> None:
        """Refuse features whose sums, one for each pair of them, are more than the machine can hold."""
        refuse_beyond(8 * self.n_features**2, f"n_features={self.n_features}", "fewer features")


@dataclass(frozen=True, eq=False)
class Grown:
    """What was found."""

    chains: tuple[Chain, ...]
    settled: Settled
    steps: tuple[Step, ...]
    sums: tuple[Sums, ...]
    """Of the last stage of every member, where they were to be kept"""
    residuals: Array
    """u − û of samples held out, (samples, values); with a judge, of samples that were fitted"""
    held: Array | None = None
    """û of the samples held out, by the chain that chose its ridges on them; None where a judge chose"""

    @property
    def none(self) -> Chain:
        """A chain of no stages"""
        return replace(self.chains[0], stages=())

    def report(self, start: str, begun: float, held: int) -> StagesReport:
        """All of it for people to read."""
        return StagesReport(start, begun, self.settled, self.steps, held)


def held_out(groups: Sequence[int], seed: int, share: float = 0.2) -> tuple[list[int], int]:
    """An order of the samples in which those to hold out stand last, and their number.

    `groups` has a label per sample: samples of the same group are on the same side.

    >>> order, held = held_out([0, 0, 1, 1, 2, 2], seed=0)
    >>> held, {i // 2 for i in order[-held:]} & {i // 2 for i in order[:-held]}
    (2, set())
    """
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    each = list(rows.values())
    drawn = permutation(len(each), seed=seed, stream=_STREAM)
    count = min(max(1, round(share * len(each))), len(each) - 1)
    inner, held = ([row for group in sorted(some) for row in each[group]] for some in (drawn[count:], drawn[:count]))
    return [*inner, *held], len(held)


def with_ridges(
    samples: Triple, settled: Settled, scene: Callable[[Layout], Scene], wanted: Wanted, ridges: Sequence[float]
) -> tuple[Chain, ...]:
    """Chains of all members with ridges that are known, fitted to all of these samples."""
    here, see = scene(settled.layout), _Sights(samples, wanted)(settled.layout, settled.channels)
    plan = Plan(wanted.n_features, wanted.seed)
    return tuple(
        grown(here, see, plan, samples, Known(iter(ridges)), most=len(ridges), member=member)[0]
        for member in range(wanted.n_members if ridges else 1)
    )


def fit_stages(
    samples: Triple, layouts: Sequence[Layout], scene: Callable[[Layout], Scene], wanted: Wanted,
    held: int, judge: Judge | None = None,
) -> Grown:  # fmt: skip
    """Settle on what stages see, then grow all members; the last so many samples are held out."""
    parts = tuple(Triple(*(part[rows, :] for part in samples)) for rows in (slice(None, -held), slice(-held, None)))
    sight = _Sights(samples, wanted)
    wanted.tick("what stages see", 0, None)
    settled = settle(layouts, wanted.channels, _trials(parts, scene, sight, wanted))
    here, see = scene(settled.layout), sight(settled.layout, settled.channels)
    plan = Plan(wanted.n_features, wanted.seed)
    most = wanted.n_stages
    members = range(wanted.n_members)

    def fitted(member: int, chooser: Chooser, most: int) -> tuple[Chain, list[Step], Sums | None]:
        wanted.tick("members", member, len(members))
        chain, steps, last = grown(here, see, plan, samples, chooser, most=most, member=member)
        return chain, steps, last if wanted.keep_sums else None

    found = None
    if judge is not None:
        ends = [fitted(i, Judged(judge, _JUDGED_RIDGES, _LEAST_GAIN), most) for i in members]
        steps = ends[0][1]
        some = Triple(*(taken(part, spread(int(part.shape[0]), _MISSED)) for part in samples))
        residuals = some.outputs - ends[0][0](some.inputs, some.fields)
    else:
        wanted.tick("ridges", 0, None)
        fewer = replace(here, averaged=here.averaged[:_AVERAGED])
        chooser = HeldOut(parts[1], _RIDGES, _LEAST_GAIN)
        steps = grown(fewer, see, plan, parts[0], chooser, most=most)[1]
        found = chooser.samples.fields
        some = Triple(*(taken(part, spread(held, _MISSED)) for part in chooser.samples))
        residuals = some.outputs - some.fields
        ridges = [step.ridge for step in steps]
        ends = [fitted(i, Known(iter(ridges)), len(ridges)) for i in (members if ridges else members[:1])]
    sums = tuple(last for _, _, last in ends if last is not None)
    return Grown(tuple(chain for chain, _, _ in ends), settled, tuple(steps), sums, residuals, found)


def held_fields(
    samples: Triple, grown_before: Grown, scene: Callable[[Layout], Scene], wanted: Wanted, held: int
) -> Array:
    """û of the last `held` samples, by up to two members that were fitted to the others."""
    found = grown_before.held
    assert found is not None
    ridges = [step.ridge for step in grown_before.steps]
    if not ridges or wanted.n_members < 2:
        return found
    inner, out = (Triple(*(part[rows, :] for part in samples)) for rows in (slice(None, -held), slice(-held, None)))
    layout = grown_before.settled.layout
    here, see = scene(layout), _Sights(samples, wanted)(layout, grown_before.settled.channels)
    here = replace(here, averaged=here.averaged[:_AVERAGED])
    plan = Plan(wanted.n_features, wanted.seed)
    chain = grown(here, see, plan, inner, Known(iter(ridges)), most=len(ridges), member=1)[0]
    return (found + chain(out.inputs, out.fields)) / 2


def judge_of_chains(judge: Callable[..., Any], start: Start, units: Units, layout: Layout) -> Judge:
    """The judge of a user's step, a function of states in the user's units, as one of chains."""

    def error(chain: Chain) -> float:
        def step(states: Array) -> Array:
            xp = place_of(states).xp
            flat = xp.reshape(states, (states.shape[0], -1))
            found = chain(flat / units.inputs, start(flat) / units.outputs) * units.outputs
            return xp.reshape(found, (states.shape[0], *layout.output_grid))

        return float(judge(step))

    return error


class _Sights:
    """What stages see on any layout."""

    def __init__(self, samples: Triple, wanted: Wanted):
        self.samples, self.wanted = samples, wanted

    def __call__(self, layout: Layout, channels: Channels) -> Sight:
        fixed = None
        if self.wanted.evolving:
            fixed = layout.outputs(mean_field(self.samples.outputs - self.samples.fields)[None, :])
        return Sight(layout.domain, channels, self.wanted.evolving, fixed, self.wanted.terms)


def _trials(
    parts: tuple[Triple, ...], scene: Callable[[Layout], Scene], sight: _Sights, wanted: Wanted
) -> Callable[[Layout, Channels], float]:
    """The error of a small chain without copies, for given ends and channels."""
    count, held, features, stages = _TRIED
    size = max(1, int(parts[0].outputs.shape[1]))
    count = min(count, max(count // 2, _TRIED_VALUES[0] // size), max(32, _TRIED_VALUES[1] // size))
    few, judged = (
        Triple(*(taken(side, spread(int(side.shape[0]), most, seed=wanted.seed)) for side in part))
        for part, most in zip(parts, (count, min(held, count // 2)), strict=True)
    )
    plan = Plan(min(features, wanted.n_features), wanted.seed)

    def tried(layout: Layout, channels: Channels) -> float:
        here = replace(scene(layout), fitted=(0,), averaged=(0,))
        chooser = HeldOut(judged, _TRIED_RIDGES, 0.0)
        steps = grown(here, sight(layout, channels), plan, few, chooser, most=min(stages, wanted.n_stages))[1]
        return steps[-1].error if steps else relative_error(judged.fields, judged.outputs)

    return tried
