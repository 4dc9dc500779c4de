"""Level after level, one launch each: the end of a launch is the barrier."""

from __future__ import annotations

from typing import Any

from gpuilu.backend import cuda

__all__ = ["LAUNCH_US", "THREADS", "launch_levels"]

THREADS = 256  # of a block: eight warps
LAUNCH_US = 3.0  # at least, from one launch to the next


def launch_levels(function: Any, level_ptr: Any, *arguments: Any) -> None:
    """Launch a kernel of one warp for each position of a level, for every level in turn.

    `level_ptr` is int32 and on the host; the first and the last position go after the arguments.
    """
    warps = THREADS // cuda.WARP
    blocks = -(-(level_ptr[1:] - level_ptr[:-1]) // warps)
    bounds = zip(blocks.tolist(), level_ptr[:-1], level_ptr[1:], strict=True)
    for count, first, last in bounds:
        function((count,), (THREADS,), (*arguments, first, last))
