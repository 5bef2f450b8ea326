"""The trainer's own errors: four borders (environment, sampler, learner, storage) and one for configuration."""


class TunixError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(TunixError):
    """A setting that cannot work; raised before anything is allocated. Says what, where and what to do."""


class AssetError(TunixError):
    """A model file is missing, altered or of another layout."""


class EnvError(TunixError):
    """An environment raised or answered something outside the Environment protocol."""


class SamplerError(TunixError):
    """The sampler cannot serve a request (too long, unknown tenant, mismatched lengths)."""


class LearnerError(TunixError):
    """The learner cannot take a batch (wrong shapes, a future policy version, a failed self-check)."""


class StalledError(TunixError):
    """No stage made progress within its deadline; the message names every wait and its owner."""


class CheckpointError(TunixError):
    """A checkpoint is missing, altered, or belongs to another run."""


class StorageError(TunixError):
    """The buffer can't keep or read a record: a full disk, a file that is not ours, altered bytes."""
