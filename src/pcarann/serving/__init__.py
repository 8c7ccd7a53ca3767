"""Models that answer over HTTP: the Open Inference Protocol, batches, limits, and what is counted on the way."""
