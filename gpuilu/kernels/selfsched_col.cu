// T x = b by columns in level order, a counter of unsolved dependencies each: `selfsched_columns`.
#include "substitution.cuh"

namespace gpuilu {

// Solve T x = b in place, row-major (n, nrhs): x is b on entry. T by columns, these in level order
// (`indices` are rows), and in_degree in level order too. `counts`, all ones on entry, counts the
// dependencies of each row that have been subtracted. One warp a column; ONE: nrhs is 1. Any grid;
// blocks of whole warps, 256 threads at most.
//
// Ordering: what a column subtracts comes before the fence of `notify`, its counts after; a row
// acquires its counter at its last value, and all counts are atomics on it, so it sees every term.
// Sums are read at device scope, past the L1 cache; the order of the terms varies.
// Progress: as for `selfsched_rows`.
// Source: Li (2017), algorithm 4 and kernel SLFC.
template <class F, class V, bool ONE>
__global__ void __launch_bounds__(256) selfsched_columns(Matrix<F> T, const int* in_degree, V* x,
                                                         u32* counts, int nrhs, Launch launch) {
    __shared__ u32 ring[4];
    const int lane = threadIdx.x & 31, group = lanes_an_entry<ONE>(nrhs);
    Patience patience;
    Turns turns(ring, launch);
    Column<F> mine, next;
    load_extent(T, turns.position(0), mine);
    load_entries(T, group, lane, mine);
    Dependents them{mine.begin, mine.end, -1};
    load_first(T.indices, lane, them);
    int awaited = mine.row < 0 ? 0 : in_degree[turns.position(0)];
    while (turns.first(0) < T.n) {
        turns.take(launch);
        load_extent(T, turns.position(1), next);
        const int next_awaited = next.row < 0 ? 0 : in_degree[turns.position(1)];
        if (mine.row >= 0) {
            await_count(counts + mine.row, u32(awaited), launch, patience, lane);
            eliminate_column<ONE>(T, mine, x, nrhs, group, patience.abandoned, lane);
            notify(counts, T.indices, them, lane);
        }
        load_entries(T, group, lane, next);
        mine = next;
        them = {mine.begin, mine.end, -1};
        load_first(T.indices, lane, them);
        awaited = next_awaited;
        turns.next();
    }
}

} // namespace gpuilu
