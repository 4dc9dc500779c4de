// depth[i] = 1 + max depth[j] over the rows j that row i depends on, where neighbours are irregular.
#include "chunk.cuh"

namespace gpuilu {

struct Depth {
    using Word = u32;
    u32 deepest = 0, most = 0;

    __device__ void begin(int) { deepest = 0; }
    __device__ void hear(u32 found) { deepest = found > deepest ? found : deepest; }
    __device__ u32 word() {
        most = max(most, deepest + 1);
        return deepest + 1;
    }
    __device__ u32 drained() const { return 1; }
};

// depth[i] = level[i] + 1, and depth[n] is the largest; zero on entry. How rows wait for each other, and what
// is launched: `pass_by_chunk`.
//
// `row_depths` of levels.cu resolves 32 rows in one scan where each depends on the row before it, but row
// after row where the pattern is irregular: there it is slower than this.
template <bool LOWER>
__global__ void __launch_bounds__(CHUNK)
    row_depths_by_chunk(int n, const int* indptr, const int* indices, u32* depth, Launch launch) {
    Depth rule;
    pass_by_chunk<LOWER>(n, indptr, indices, depth, rule, launch);
    report_most(depth + n, rule.most, threadIdx.x & 31);
}

} // namespace gpuilu
