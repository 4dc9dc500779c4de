"""The papers' main comparisons, with their numbers, and how the same comes out of our records.

000: Liu, Li, Hogg, Duff, Vinter, Euro-Par 2016. 001: Liu, a talk, Toulouse 2017. 003: Lu, Liu,
TileSpTRSV, 2023. 004: Li, arXiv:1710.04985, 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuilu.bench.cases import CASES
from gpuilu.bench.comparisons import (
    FLOAT32,
    NOTHING,
    Speed,
    both_sweeps,
    break_evens,
    falls_with_aspect,
    memory,
    most_gflops,
    precisions,
    scaling,
    setup_in_solves,
)
from gpuilu.bench.results import REFERENCE, Results

__all__ = ["CLAIMS", "NOTHING", "Claim"]


@dataclass(frozen=True)
class Claim:
    """A comparison of a paper.

    Parameters
    ----------
    paper : str
    text : str
    card : str
        What the paper measured on.
    theirs : str
        The paper's numbers.
    ours : callable
        ours(results) is the same from a record, in words.
    wins : callable, optional
        wins(results) is a mean ratio, above 1 if what the paper says is ahead is ahead here too;
        None if it was not measured.
    """

    paper: str
    text: str
    card: str
    theirs: str
    ours: Callable[[Results], str]
    wins: Callable[[Results], float | None] | None = None

    def verdict(self, results: Results) -> str:
        """Whether the comparison goes the same way: where the paper's goes one way at all."""
        mean = None if self.wins is None else self.wins(results)
        if mean is None:
            return ""
        return "yes" if mean >= 1.05 else "no" if mean <= 0.95 else "level"


def _won(paper: str, text: str, card: str, theirs: str, speed: Speed, holds: bool = True) -> Claim:
    """A comparison of speeds; `holds`: the paper's winner is the algorithm, on the whole."""
    return Claim(paper, text, card, theirs, speed, speed.mean if holds else None)


def _grids(points: int) -> list[str]:
    dimensions = {5: 2, 9: 2, 7: 3, 27: 3}[points]
    return [name for name in CASES if name.startswith(f"g{dimensions}d{points}_")]


STENCILS = [name for points in (5, 9, 7, 27) for name in _grids(points)]


# ---- the claims ---------------------------------------------------------------------------------

TITAN, RTX, P100 = "Titan X (Maxwell)", "RTX 4090", "Tesla P100"
THREE_CARDS = "GTX 1060, GTX 1080, Titan X (Pascal)"

CLAIMS = (
    _won(
        "000",
        "sync-free over csrsv2, double",
        TITAN,
        "average 2.14x, at most 3.65x (11 matrices)",
        Speed("syncfree"),
    ),
    _won(
        "000",
        "sync-free over csrsv2, single",
        TITAN,
        "average 2.3x, at most 5.95x",
        Speed("syncfree", setting=FLOAT32),
    ),
    _won(
        "000",
        "set-up of sync-free over csrsv2's analysis",
        f"{TITAN}; K40c",
        "average 43.7x, at most 70.5x; K40c 58.2x, 89.2x",
        Speed("syncfree", phase="setup"),
    ),
    _won(
        "003",
        "TileSpTRSV, level sets, over cuSPARSE SpSV",
        RTX,
        "average 5.29x, at most 38.10x (16 matrices)",
        Speed("tile_level"),
    ),
    _won(
        "003",
        "TileSpTRSV, level sets, over sync-free",
        RTX,
        "average 5.33x, at most 21.32x",
        Speed("tile_level", "syncfree"),
    ),
    _won(
        "003",
        "TileSpTRSV, level sets over sync-free tiles",
        RTX,
        "at most 4.31x (boyd2)",
        Speed("tile_level", "tile_syncfree"),
    ),
    _won(
        "003",
        "boyd2: over cuSPARSE (the arrow stands for it)",
        RTX,
        "3.75x, 35.19 GFLOPS",
        Speed("tile_level", cases=["arrow_466k"]),
    ),
    _won(
        "003",
        "blockqp1: the best case over RecBlock; here over cuSPARSE (dense blocks)",
        RTX,
        "12.87x over RecBlock",
        Speed("tile_level", cases=["blocks_60k"]),
    ),
    Claim(
        "003",
        "speed in double over speed in single (figure 10)",
        RTX,
        "sync-free 0.9 to 1.0; tiles 0.8 to 0.9; cuSPARSE 0.5 to 0.6",
        precisions(["syncfree", "tile_level", REFERENCE]),
    ),
    Claim("003", "tiles hold less than sync-free", RTX, "on most of 16 matrices", memory),
    Claim(
        "003",
        "set-up of tiles, in solves (ours on the GPU)",
        "CPU",
        "below 10 on most matrices",
        setup_in_solves("tile_level", few=10),
    ),
    _won(
        "004",
        "SLFC over csrsv2, 2-D 5-point grids",
        P100,
        "very close to 1x",
        Speed("selfsched_col", REFERENCE, cases=_grids(5), both=True),
        holds=False,
    ),
    _won(
        "004",
        "SLFC over csrsv2, 3-D 7-point grids",
        P100,
        "1.18x to 1.47x, 0.95x on 32x32x2048",
        Speed("selfsched_col", REFERENCE, cases=_grids(7), both=True),
    ),
    _won(
        "004",
        "SLFC over csrsv2, 3-D 27-point grids",
        P100,
        "1.09x to 1.82x",
        Speed("selfsched_col", REFERENCE, cases=_grids(27), both=True),
    ),
    _won(
        "004",
        "SLFC over csrsv2, general matrices",
        P100,
        "at most 2.64x",
        Speed("selfsched_col", REFERENCE, cases=[c for c in CASES if c not in STENCILS], both=True),
    ),
    _won(
        "004",
        "columns over rows, self-scheduled (SLFC over SLFR)",
        P100,
        "above 1x on all grids",
        Speed("selfsched_col", "selfsched_row", cases=STENCILS, both=True),
    ),
    _won(
        "004",
        "self-scheduling over level scheduling, 2-D (SLFR over LEVR)",
        P100,
        "2.3x to 2.6x (from tables 5.3 a, b)",
        Speed("selfsched_row", "level_row", cases=[*_grids(5), *_grids(9)], both=True),
    ),
    _won(
        "004",
        "self-scheduling over level scheduling, 3-D 7-point (SLFR over LEVR)",
        P100,
        "0.72x to 1.97x: levels win on the squarest (from table 5.3 c)",
        Speed("selfsched_row", "level_row", cases=_grids(7), both=True),
        holds=False,
    ),
    Claim(
        "004",
        "throughput falls with the aspect ratio: longest grid over squarest",
        P100,
        "SLFC, 5-point 0.17; 7-point 0.84 (from table 5.3)",
        both_sweeps(falls_with_aspect),
    ),
    Claim(
        "004",
        "matrices with about 79 entries a row",
        P100,
        "above 10 GFLOPS",
        most_gflops("selfsched_col", ["elast3d_64_dof3", "shell_318_dof5"]),
    ),
    Claim(
        "004",
        "set-up of SLFC on the GPU, in solves",
        P100,
        "2-D 5-point 1.8 to 3.2; 3-D 7-point 2.1 to 6.3 (table 5.4)",
        setup_in_solves("selfsched_col"),
    ),
    Claim(
        "004",
        "solves from which SLFC beats csrsv2 in total (table 5.6)",
        P100,
        "0 to 61; 0 for 6 of 12",
        both_sweeps(break_evens),
    ),
    Claim(
        "001",
        "level sets do not scale with the card, whatever the matrix",
        THREE_CARDS,
        "inversely with many levels, not at all with few",
        scaling("level_row"),
    ),
    Claim(
        "001",
        "sync-free scales with the card only where a level has many rows",
        THREE_CARDS,
        "inversely with many levels, with the card with few",
        scaling("syncfree"),
    ),
    Claim("001", "the same of the solver chosen by default", "", "", scaling("auto")),
)
