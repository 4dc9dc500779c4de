// depth[i] = 1 + max depth[j] over the rows j that row i depends on, where neighbours are irregular.
#include "sync.cuh"

namespace gpuilu {

constexpr int CHUNK = 1024;

// depth[i] = level[i] + 1, and depth[n] is the largest; zero on entry. One thread a row; a block
// takes chunks of CHUNK consecutive rows (from the last row on for an upper triangle) by ticket, in
// the order in which rows can depend on each other. Blocks of CHUNK threads, any grid.
//
// Inside a chunk rows hand their depth over through shared memory, between chunks through device
// memory. A depth is its own ready mark (zero means "not yet"), one 32-bit word stored once and read
// by relaxed polls: nothing else is communicated, so no fence is needed. No lane waits for another
// inside a diverged branch: every lane tries, then the warp votes.
// Progress: a chunk depends on itself and on chunks with smaller tickets, whose blocks are running.
// `row_depths` of levels.cu resolves 32 rows in one scan where each depends on the row before it, but row
// after row where the pattern is irregular: there it is slower than this.
// Source: the self-scheduled analysis that Li (2017), section 4.4, leaves open.
template <bool LOWER>
__global__ void __launch_bounds__(CHUNK)
    row_depths_by_chunk(int n, const int* indptr, const int* indices, u32* depth, Launch launch) {
    __shared__ u32 local[CHUNK];
    __shared__ u32 shared_ticket;
    const int lane = threadIdx.x & 31;
    Patience patience;
    u32 most = 0;
    while (true) {
        __syncthreads(); // the chunk before is finished with `local`
        if (threadIdx.x == 0) shared_ticket = take_ticket(launch);
        local[threadIdx.x] = 0;
        __syncthreads();
        const long long first = (long long)shared_ticket * CHUNK;
        if (first >= n) return report_most(depth + n, most, lane);
        const long long at = first + threadIdx.x;
        const int i = at >= n ? -1 : LOWER ? int(at) : n - 1 - int(at);
        int p = i < 0 ? 0 : indptr[i];
        const int end = i < 0 ? 0 : indptr[i + 1];
        u32 deepest = 0;
        bool done = i < 0;
        while (true) {
            while (!done && p < end) {
                const int j = indices[p];
                const long long from_first = (LOWER ? j : n - 1 - j) - first;
                const u32 found = from_first >= 0 ? load_relaxed_shared(local + from_first)
                                                  : load_relaxed(depth + j);
                if (found == 0) break;
                deepest = found > deepest ? found : deepest;
                ++p;
            }
            if (!done && p == end) {
                store_relaxed_shared(local + threadIdx.x, deepest + 1);
                store_relaxed(depth + i, deepest + 1);
                most = max(most, deepest + 1);
                done = true;
            }
            if (__all_sync(FULL_WARP, done)) break;
            if (patience.exhausted(launch, lane)) { // drain: dependents see some depth
                if (!done) {
                    store_relaxed_shared(local + threadIdx.x, 1u);
                    store_relaxed(depth + i, 1u);
                }
                break;
            }
        }
    }
}

} // namespace gpuilu
