"""The memory of the emulated device: what the arguments of a launch point to."""

from __future__ import annotations

import numpy as np

LINE = 64  # bytes: arrays of the device begin at multiples of it
GUARD = 256  # bytes between arrays


class Struct:
    """A by-value argument: arrays as pointers, None as null, ints, each in eight bytes."""

    def __init__(self, *fields):
        self.fields = fields


class Arena:
    """The memory of the device for one launch: copies of the arrays, with guards in between."""

    def __init__(self, arguments, names):
        self.offsets, self.arrays, self.names, self.granules = {}, [], [], []
        self.size = LINE
        for argument, name in zip(arguments, names, strict=True):
            fields = argument.fields if isinstance(argument, Struct) else (argument,)
            for k, field in enumerate(fields):
                inner = name if len(fields) == 1 else f"{name}[{k}]"
                if isinstance(field, np.ndarray) and id(field) not in self.offsets:
                    self._place(field, inner)
        raw = np.zeros(self.size + LINE, np.uint8)
        self.base = -(-raw.ctypes.data // LINE) * LINE
        self.memory = raw[self.base - raw.ctypes.data :][: self.size]

    def _place(self, array, name):
        assert array.flags.c_contiguous, f"{name} is not contiguous"
        self.offsets[id(array)] = self.size
        self.arrays.append(array)
        self.names.append(name)
        self.granules.append(min(4, array.itemsize) if array.dtype != np.uint8 else 4)
        self.size += -(-(array.nbytes + GUARD) // LINE) * LINE

    def views(self):
        for array in self.arrays:
            at = self.offsets[id(array)]
            yield array, self.memory[at : at + array.nbytes]

    def upload(self):
        for array, view in self.views():
            view[:] = array.reshape(-1).view(np.uint8)

    def download(self):
        for array, view in self.views():
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[:] = view

    def buffers(self):
        rows = [
            (self.offsets[id(a)], a.nbytes, g)
            for a, g in zip(self.arrays, self.granules, strict=True)
        ]
        return np.array(rows, np.uint64).reshape(-1, 3)

    def pack(self, argument):
        """The bytes of an argument. A Python int is a 32-bit int, as in `cuda.launch`."""
        if isinstance(argument, Struct):
            return np.array([self._word(f) for f in argument.fields], np.uint64)
        if isinstance(argument, np.ndarray) or argument is None:
            return np.array([self._word(argument)], np.uint64)
        return np.array([argument], np.int32 if type(argument) is int else None)

    def _word(self, field):
        if isinstance(field, np.ndarray):
            return self.base + self.offsets[id(field)]
        return 0 if field is None else int(field)
