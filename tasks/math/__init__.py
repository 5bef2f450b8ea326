"""Arithmetic tasks: one file a task, each with its generator, grader and demonstrators."""
