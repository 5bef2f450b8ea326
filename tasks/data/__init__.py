"""Data-set tasks: where rows come from, their manifest, and the split of their content."""
