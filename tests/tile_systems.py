"""A triangle with tiles of every format, and what its tiles hold, read byte by byte."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from cases import as_triangle, triangle

from gpuilu.trsv.tiles import lay_out

FORMATS = ("CSR", "COO", "ELL", "HYB", "Dns", "DnsRow", "DnsCol")
TILE = 16


def pattern_of(name):
    """A 16x16 pattern that is stored in the format of that name."""
    P = np.zeros((TILE, TILE), bool)
    i = np.arange(TILE)
    if name == "CSR":
        P[3, :10] = P[8, 2:9] = P[15, 5] = True
    elif name == "COO":
        P[[0, 3, 3, 3, 9, 15], [15, 1, 4, 14, 2, 0]] = True
    elif name == "ELL":
        P[i, (5 * i) % TILE] = P[i, (5 * i + 3) % TILE] = True
        P[2, 13] = False
    elif name == "HYB":
        P[i[:10], i[:10]] = P[5, 1:5] = True
    elif name == "Dns":
        P[:] = True
        P[i, (7 * i) % TILE] = P[4, 1:9] = False
    elif name == "DnsRow":
        P[[1, 7, 15]] = True
    elif name == "DnsCol":
        P[:, [0, 6]] = True
    return P


def tiled_triangle(lower=True, unit=False, dtype="d", names=FORMATS):
    """One tile row with tiles of the formats named, on tile rows without entries.

    Two levels, whose sizes are multiples of 16: level order is the order given. The upper triangle
    is the lower one turned by 180 degrees; its tiles keep their formats.
    """
    n = TILE * (len(names) + 1)
    P = np.zeros((n, n))
    P[n - TILE :, : n - TILE] = np.hstack([pattern_of(name) for name in names])
    return as_triangle(triangle(sp.csr_array(P), dtype, lower), lower, unit)


def formats_of(T):
    """The formats of the tiles of T."""
    return {FORMATS[word >> 29] for word in lay_out(T)[0].tile.tolist()}
