"""Time marching for evolution problems: one step of the flow, learned from all pairs and judged on roll-outs."""
