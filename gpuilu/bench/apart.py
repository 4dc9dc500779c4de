"""f(x) in a process of its own, which is ended if it does not come back."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["apart"]


def apart(function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """What a function returns in a new process; nothing else can end a launch that hangs.

    Parameters
    ----------
    function, *arguments
        Importable, and picklable, as what it returns.
    seconds : float
        How long it may take, importing included.

    Raises
    ------
    TimeoutError
        If it took longer: its process is killed.
    RuntimeError
        If it raised, with what it said, or if its process ended without a word.
    """
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_tell, args=(theirs, function, arguments), daemon=True)
    process.start()
    theirs.close()  # so that the end of the process is the end of the pipe
    try:
        if not ours.poll(seconds):
            raise TimeoutError(f"not back after {seconds:g} seconds; its process was ended")
        good, value = ours.recv()
    except EOFError:
        raise RuntimeError("its process ended without a word") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if not good:
        raise RuntimeError(value)
    return value


def _tell(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Send (whether it returned, what it returned or how it failed)."""
    try:
        pipe.send((True, function(*arguments)))
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {error}"))
