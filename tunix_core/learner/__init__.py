"""The learner: several tenants, one packed step."""
