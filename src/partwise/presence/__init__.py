"""Which parts are present in a sample: a posterior over sets of parts, and over activations that may be 0."""

from partwise.presence.posterior import PresencePosterior, PresencePrior, presence_posterior

__all__ = ["PresencePosterior", "PresencePrior", "presence_posterior"]
