"""Continuous-batching sampler over stacked adapters."""
