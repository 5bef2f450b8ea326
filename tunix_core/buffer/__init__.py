"""Trajectories on their way from actors to the learner: assembled into groups, bounded, kept until they are learnt.

`TrajectoryBuffer` is the contract (docs/buffer.md); a `Store` decides what survives the process.
"""

from tunix_core.buffer.store import Quarantined, Recovered, Store
from tunix_core.buffer.trajectories import BufferSpec, Put, TrajectoryBuffer, episode_bytes

__all__ = ["BufferSpec", "Put", "Quarantined", "Recovered", "Store", "TrajectoryBuffer", "episode_bytes"]
