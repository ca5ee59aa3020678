"""What is documented about the published data: sizes and totals to check against, and where each file comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class CountsEntry:
    """A count matrix: its documented sizes, and where to get it by hand."""

    shape: tuple[int, int]
    nonzeros: int
    total: int
    largest: int
    origin: str


@dataclass(frozen=True)
class BinaryEntry:
    """A 0/1 matrix as published, features x samples; ``ones`` is None where no number is documented."""

    shape: tuple[int, int]
    ones: int | None
    missing: int
    rows: str
    columns: str
    origin: str


@dataclass(frozen=True)
class GapEntry:
    """A trained Gamma-Poisson model with its counts."""

    shape: tuple[int, int]
    n_components: int
    mean_length: float
    largest_length: int
    mean_nonzeros: float
    origin: str


_FASTTOPICS = "the GitHub repository stephenslab/fastTopics-experiments, file data/{}.RData"

COUNTS: Mapping[str, CountsEntry] = MappingProxyType(
    {
        "ap": CountsEntry(
            (2246, 10473),
            302031,
            435838,
            36,
            "the GitHub repository cjrd/SimpleLDA-R, files data/ap.dat and data/vocab.txt",
        ),
        "reuters395": CountsEntry(
            (395, 4258),
            60114,
            84010,
            40,
            "the GitHub repository Damanpreet/lda, files lda/tests/reuters.ldac and reuters.tokens",
        ),
        "nips_uci7605": CountsEntry(
            (1500, 7605),
            709477,
            1870706,
            132,
            "the GitHub repository kasparmartens/oxwaspLDA, file data/nips.RData (Wtrain, then Wtest)",
        ),
        "nips2483": CountsEntry((2483, 14036), 1304438, 3280697, 160, _FASTTOPICS.format("nips")),
        "newsgroups20": CountsEntry((18774, 55911), 2429942, 4547389, 716, _FASTTOPICS.format("newsgroups")),
        "mcf7_rnaseq": CountsEntry((41, 16773), 622822, 414478204, 133538, _FASTTOPICS.format("mcf7")),
        "kos": CountsEntry(
            (3430, 6906),
            353160,
            467714,
            43,
            "the GitHub repository piratf/DataMining, commit 0a9a140, file data/docword.kos.txt.gz.1",
        ),
    }
)
"""Count matrices that `partwise.datasets.load_counts` reads."""

_NBMF = "the GitHub repository alumbreras/NBMF, commit 2860d35, folder data"

BINARY: Mapping[str, BinaryEntry] = MappingProxyType(
    {
        "animals": BinaryEntry((85, 50), 1562, 0, "attribute", "animal", _NBMF),
        "lastfm": BinaryEntry((285, 1226), 15189, 0, "artist", "user", _NBMF),
        "paleo": BinaryEntry((253, 902), 7543, 0, "genus", "site", _NBMF),
        "parliament": BinaryEntry((130, 130), 4426, 0, "follower", "followed", _NBMF),
        "unvotes": BinaryEntry((200, 5429), 588800, 347036, "country", "roll call", _NBMF),
        "unvotes_coldwar": BinaryEntry((100, 3638), 242724, 39743, "country", "roll call", _NBMF),
        "unvotes_coldwar_absna": BinaryEntry((100, 3638), 242724, 88355, "country", "roll call", _NBMF),
        "extra_esvotes": BinaryEntry((374, 1799), None, 109311, "member", "roll call", _NBMF),
        "extra_esvotes_groups": BinaryEntry((7, 1799), None, 1471, "group", "roll call", _NBMF),
        "extra_jazz": BinaryEntry((188, 181), None, 0, "musician", "musician", _NBMF),
        "extra_zachary": BinaryEntry((34, 34), None, 0, "member", "member", _NBMF),
        "extra_sampson": BinaryEntry((18, 18), None, 0, "monk", "monk", _NBMF),
        "extra_epinions1000": BinaryEntry((1000, 1000), None, 0, "user", "user", _NBMF),
    }
)
"""Binary matrices that `partwise.datasets.load_binary` reads."""

_L2R = "the GitHub repository jcapde/L2R, file data/{}.mat"

GAP: Mapping[str, GapEntry] = MappingProxyType(
    {
        "nips100": GapEntry((5802, 100), 5, 124.797, 388, 45.388, _L2R.format("NIPS_GaP_5802N_100W_5T")),
        "twitter100": GapEntry((10653, 100), 5, 5.274, 30, 3.756, _L2R.format("Twitter_GaP_10653N_100W_5T")),
    }
)
"""Trained Gamma-Poisson models that `partwise.datasets.load_gap` reads."""
