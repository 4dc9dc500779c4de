"""t(algorithm, case): time every triangular solver on fixed matrices, keep records, show them.

`gpuilu bench` is the command. A run reads downwards: `cases` (what is solved), `prepare` (cases
built ahead), `systems` (triangles and right-hand sides on a device), `measure` (times), `record`
(JSON files); `results`, `compare`, `tables`, `claims`, `papers` and `figures` show records.
"""
