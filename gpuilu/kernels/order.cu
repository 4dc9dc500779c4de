// Rows in another order, and where they and their entries go: kernels without waiting, which replace
// chains of array operations of a few microseconds each.
#include "sync.cuh"

namespace gpuilu {

constexpr int LANES = 8; // that share a row

// Level sets from the rows sorted by depth, which is the level and `least`: level_order is `sorted` in 32 bits,
// level l begins at level_ptr[l]; `level` unless it is null. No level is empty. One thread a row.
__global__ void level_bounds(int n, const long long* sorted, const int* depth, int least,
                             int* level, int* level_order, int* level_ptr) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int i = int(sorted[k]), mine = depth[i] - least;
    level_order[k] = i;
    if (level) level[i] = mine;
    if (k == 0 || depth[sorted[k - 1]] - least != mine) level_ptr[mine] = k;
    if (k == n - 1) level_ptr[mine + 1] = n;
}

// Row order[k] gets position k; lengths[k + 1] is how long it is, lengths[0] zero. One thread a row.
__global__ void place_rows(int n, const int* order, const int* indptr, int* position,
                           int* lengths) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int i = order[k];
    position[i] = k;
    if (k == 0) lengths[0] = 0;
    lengths[k + 1] = indptr[i + 1] - indptr[i];
}

// Row k of the result is row order[k] of (indptr, indices), its columns as positions. LANES threads a
// row.
__global__ void place_entries(int n, const int* order, const int* indptr, const int* indices,
                              const int* position, const int* placed_indptr, int* placed) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long k = thread / LANES;
    if (k >= n) return;
    const int begin = placed_indptr[k], end = placed_indptr[k + 1], from = indptr[order[k]];
    for (int p = begin + int(thread % LANES); p < end; p += LANES)
        placed[p] = position[indices[from + p - begin]];
}

// Row k of the result is row order[k] of (indptr, source). LANES threads a row.
template <class V>
__global__ void take_rows(int n, const int* order, const int* indptr, const V* source,
                          const int* taken_indptr, V* taken) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long k = thread / LANES;
    if (k >= n) return;
    const int begin = taken_indptr[k], end = taken_indptr[k + 1], from = indptr[order[k]];
    for (int p = begin + int(thread % LANES); p < end; p += LANES)
        taken[p] = source[from + p - begin];
}

// result[e] = data[source[e]], -1 where the source is -1, 0 where it is -2. One thread an entry.
template <class F>
__global__ void take_entries(long long n, const int* source, const F* data, F* result) {
    const long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= n) return;
    const int p = source[e];
    result[e] = p >= 0 ? data[p] : p == -1 ? F(-1) : F(0);
}

// Number of the first task of level l, if level 0 begins with task 0: room for (length + rows - 1) / rows
// tasks of each level before it, for floor(a / r) + floor(b / r) <= floor((a + b) / r).
__device__ inline long long first_task(int l, int rows, const int* level_ptr) {
    return (level_ptr[l] + (long long)l * (rows - 1)) / rows;
}

// Task t is at most `rows` rows of one level, or none, from position task_ptr[t] on; task n_tasks is the end.
// One thread a task, and one.
__global__ void begin_tasks(int n_tasks, int n_levels, int rows, const int* level_ptr,
                            int* task_ptr) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t > n_tasks) return;
    int low = 0, high = n_levels; // first_task(low) <= t; from high on it is more, or t is the end
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (first_task(middle, rows, level_ptr) <= t)
            low = middle;
        else
            high = middle;
    }
    const long long start = level_ptr[low] + rows * (t - first_task(low, rows, level_ptr));
    const int end = level_ptr[low + 1];
    task_ptr[t] = start < end ? int(start) : end;
}

} // namespace gpuilu
