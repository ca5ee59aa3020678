"""Every error and warning that partwise raises on purpose.

A message is one sentence that names the argument, the first offending row and column, and what to do.
"""


class PartwiseError(Exception):
    """Base of all errors that partwise raises on purpose."""


class InvalidInputError(PartwiseError, ValueError):
    """An argument or a data matrix cannot be used; the message says which, where and what to do."""


class FileFormatError(PartwiseError, ValueError):
    """A file is unreadable, truncated, malformed, hostile or of a foreign format."""


class MissingDependencyError(PartwiseError, ImportError):
    """An optional package is needed; the message names the extra that installs it."""


class DivergedError(PartwiseError, ArithmeticError):
    """A fit went numerically wrong: its objective is not a number."""


class EngineError(PartwiseError, RuntimeError):
    """A cluster cannot do the work; the message says why and what to do."""


class AllComponentsPrunedError(PartwiseError, ValueError):
    """A fit switched off every part; the message says what to change."""


class LogNormalisedWarning(UserWarning):
    """The data look log-normalised, where raw counts are expected."""


class IgnoredWordsWarning(UserWarning):
    """New texts have words that are not in the vocabulary; the message says how many were ignored."""


class InterruptedFitWarning(UserWarning):
    """A fit was stopped by Ctrl-C and keeps what it had reached."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit goes on without it."""


class InaccurateWarning(UserWarning):
    """An estimate did not reach the standard error that was asked for; the message names the first such row."""


class ImpossibleRowsWarning(UserWarning):
    """Some samples have a feature that no part holds, so that their log-likelihood is -inf."""


class EmptyRowsWarning(UserWarning):
    """Some samples hold no counts, so that nothing is known about their activations."""


class TrainingDataWarning(UserWarning):
    """Data are scored that the model was fitted to, which flatters it."""


class FeatureMatchWarning(UserWarning):
    """New data and a model share only some features; the message says how many."""


class BatchWarning(UserWarning):
    """A model was fitted with batches, and the batches of new samples are not given."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept in, or read from, their usual folder; the message says where they are now."""


class BrokenModelWarning(UserWarning):
    """A model that another package registers cannot be imported, and is left out."""
