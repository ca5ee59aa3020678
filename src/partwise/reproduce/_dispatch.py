"""Find the experiments of a paper by name, and run them."""

import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

import partwise.reproduce
from partwise.errors import InvalidInputError
from partwise.reproduce._notebook import Notebook

Experiment = Callable[[Notebook], None]


@dataclass(frozen=True)
class Reproduction:
    """A paper whose experiments can be repeated.

    Attributes
    ----------
    name, description
        Its name, and a description in one line.
    experiments
        In the order of the paper. Each writes its steps, figures and sections into a notebook.
    """

    name: str
    description: str
    experiments: tuple[Experiment, ...]

    def run(self, output: Path, quick: bool) -> None:
        """Write everything to a folder. An interrupted run continues where it stopped.

        Parameters
        ----------
        output
            The folder.
        quick
            Whether to run a short version.
        """
        notebook = Notebook(output, quick)
        with warnings.catch_warnings():
            # Experiments run for as many iterations as a paper says, converged or not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for experiment in self.experiments:
                experiment(notebook)


def available() -> list[str]:
    """Names of all papers; nothing is imported.

    Examples
    --------
    >>> from partwise.reproduce import available
    >>> isinstance(available(), list)
    True
    """
    modules = pkgutil.iter_modules(partwise.reproduce.__path__)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def find(name: str) -> Reproduction:
    """Import the experiments of a paper.

    Parameters
    ----------
    name
        One of `available`.
    """
    if name not in available():
        known = ", ".join(available()) or "none yet"
        raise InvalidInputError(f"there is nothing to reproduce called {name!r}; there are: {known}.")
    module = import_module(f"{partwise.reproduce.__name__}.{name}")
    description = (module.__doc__ or "").strip().splitlines()
    return Reproduction(name, description[0] if description else "", module.EXPERIMENTS)
