"""Trajectories on their way from actors to the learner."""
