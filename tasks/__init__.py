"""Tasks: items, graders and Gymnasium text environments. Knows nothing of trainers, models or benchmarks."""
