// What the lengths and columns of a triangle's rows look like: three counts in one pass, without waiting.
#include "sync.cuh"

namespace gpuilu {

constexpr int RUN_COLUMNS = 32; // of an aligned group, as wide as a tile of dense_tiles.cuh

// The distance from the diagonal of the entry nearest to it; 0 for a row without entries.
template <bool LOWER>
__device__ int nearest_distance(const int* indptr, const int* indices, int i) {
    const int begin = indptr[i], end = indptr[i + 1];
    if (begin == end) return 0;
    return LOWER ? i - indices[end - 1] : indices[begin] - i;
}

// counts[0]: the length of the longest row; counts[1]: how many rows after row 0 have their nearest entry
// as far from the diagonal as the row before; counts[2]: how many (row, group of RUN_COLUMNS columns)
// hold an entry, groups counted from the last column on for an upper triangle. Zero on entry. One
// thread for any number of rows, blocks of whole warps, any grid: each warp adds once.
template <bool LOWER>
__global__ void row_shapes(int n, const int* indptr, const int* indices, u32* counts) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    u32 longest = 0, alike = 0, runs = 0;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += threads) {
        const int i = int(at), begin = indptr[i], end = indptr[i + 1];
        longest = u32(end - begin) > longest ? u32(end - begin) : longest;
        if (i > 0)
            alike += nearest_distance<LOWER>(indptr, indices, i) ==
                     nearest_distance<LOWER>(indptr, indices, i - 1);
        int before = -1;
        for (int p = begin; p < end; ++p) {
            const int group = (LOWER ? indices[p] : n - 1 - indices[p]) / RUN_COLUMNS;
            runs += group != before;
            before = group;
        }
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) {
        const u32 other = __shfl_xor_sync(FULL_WARP, longest, o);
        longest = other > longest ? other : longest;
        alike += __shfl_xor_sync(FULL_WARP, alike, o);
        runs += __shfl_xor_sync(FULL_WARP, runs, o);
    }
    if (threadIdx.x % 32 != 0) return;
    atomicMax(counts, longest);
    atomicAdd(counts + 1, alike);
    atomicAdd(counts + 2, runs);
}

} // namespace gpuilu
