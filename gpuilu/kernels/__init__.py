"""CUDA C++ sources, compiled at run time by `gpuilu.backend.cuda`."""
