"""Where to solve next: candidates of which a surrogate would learn most."""

from pcarann.sampling.greedy import next_points

__all__ = ["next_points"]
