// Kahn's topological sort, a level a launch: remove the roots of a graph, which makes new ones.
#include "sync.cuh"

namespace gpuilu {

// Append to `queue` the rows that depend on none; *last counts what the queue holds. One thread a row.
__global__ void first_roots(int n, const int* left, int* queue, int* last) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && left[i] == 0) queue[atomicAdd(last, 1)] = i;
}

// The rows queue[first .. end) are one level: note it, and remove them. A row that loses the last of
// what it depends on (`left` counts it) joins the queue. One warp a row of the level; the launch is the
// barrier between levels.
// Source: Li (2017), section 4.4.1, FIND_LEVEL.
__global__ void remove_roots(const int* t_indptr, const int* t_indices, int* left, int* queue,
                             int first, int end, int depth, int* level, int* last) {
    const int lane = threadIdx.x & 31;
    const long long k = first + ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (k >= end) return;
    const int j = queue[k];
    if (lane == 0) level[j] = depth;
    for (int p = t_indptr[j] + lane; p < t_indptr[j + 1]; p += 32)
        if (atomicSub(left + t_indices[p], 1) == 1) queue[atomicAdd(last, 1)] = t_indices[p];
}

} // namespace gpuilu
