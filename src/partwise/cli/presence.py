"""What `fit --presence` writes and says: which given parts are present in which samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.cli.files import write_activations, write_intervals

if TYPE_CHECKING:
    from partwise.io.table import Table
    from partwise.storage.csr_folder import MappedCounts

# A part counts as present from this probability on; chains that differ by more are worth a word; pairs that are named.
_PRESENT = 0.5
_UNLIKE = 0.5
# The test for noise finds some in 5% of samples that have none.
_BY_CHANCE = 0.1
_MOST_PAIRS = 10


def write_presence(
    fitted: Any, table: Table | MappedCounts, activations: Path | None, intervals: Path | None, names: list[str]
) -> list[str]:
    """Write what was found about the presence of parts, and say it in lines."""
    import numpy as np

    found = fitted.presence(table)
    if activations is not None:
        write_activations(activations, found.mean, table, names)
    if intervals is not None:
        write_intervals(intervals, found, table)
    present = found.probability > _PRESENT
    order = np.argsort(-present.sum(axis=0), kind="stable")
    told = [
        f"{names[k]}  present in {present[:, k].sum()} of {len(present)} samples" for k in order if present[:, k].any()
    ]
    summary = f"{present.sum(axis=1).mean():.1f} parts per sample, median cosine {np.median(found.cosine):.3f}"
    confused = [f"cannot be told apart in {n} samples: {a}, {b}" for (a, b), n in found.confused.items()]
    notes = confused[:_MOST_PAIRS]
    noisy, unsure = int(np.isfinite(found.noise_size).sum()), int(np.sum(found.disagreement > _UNLIKE))
    if noisy > _BY_CHANCE * len(present):
        notes.append(f"counts of {noisy} samples vary more than Poisson noise explains: their intervals are wider")
    if unsure:
        notes.append(f"the chains of {unsure} samples disagree: take their probabilities as rough")
    return [summary, *told, *notes]
