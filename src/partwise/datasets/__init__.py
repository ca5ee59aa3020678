"""Data to try things on: published data by name, data that come with every installation, and simulated data.

Published data are read from the folder that the environment variable ``PARTWISE_DATA`` names; nothing is downloaded.
"""

from partwise.datasets.bundled import DIGIT_SHAPE, SWIMMER_SHAPE, Swimmer, digits, python_topics, swimmer
from partwise.datasets.generators import (
    simulate_allocation,
    simulate_beta_gamma,
    simulate_binary,
    simulate_empirical_bayes,
    simulate_logistic,
)
from partwise.datasets.named import describe_datasets, load_dataset
from partwise.datasets.published import BINARY, COUNTS, GAP, TrainedGap, data_folder, load_binary, load_counts, load_gap
from partwise.datasets.simulate import Simulated, simulate_batches, simulate_gamma_poisson, simulate_poisson

__all__ = [
    "BINARY",
    "COUNTS",
    "DIGIT_SHAPE",
    "GAP",
    "SWIMMER_SHAPE",
    "Simulated",
    "Swimmer",
    "TrainedGap",
    "data_folder",
    "describe_datasets",
    "digits",
    "load_binary",
    "load_counts",
    "load_dataset",
    "load_gap",
    "python_topics",
    "simulate_allocation",
    "simulate_batches",
    "simulate_beta_gamma",
    "simulate_binary",
    "simulate_empirical_bayes",
    "simulate_gamma_poisson",
    "simulate_logistic",
    "simulate_poisson",
    "swimmer",
]
