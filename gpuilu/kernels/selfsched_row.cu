// T x = b by rows in level order, a counter of unsolved dependencies each: `selfsched_rows`.
#include "substitution.cuh"

namespace gpuilu {

// Solve T x = b, row-major (n, nrhs); b may be x. T by rows; row i is told of by t_indices[t_indptr[i]
// .. t_indptr[i + 1]), the rows that depend on it. `counts`, all ones on entry, counts the
// dependencies of each row that are solved. One warp a row, C right-hand sides at once. Any grid;
// blocks of whole warps, 256 threads at most.
//
// Ordering: x_j is stored before the fence of `notify`, the count comes after; a row acquires its
// counter at its last value, and all counts are atomics on it, so it sees every x_j. b_i is read and
// x_i written by one lane, in this order.
// Progress: positions are in level order, and a block works off its tickets in the order in which
// it took them. So the holder of the smallest unfinished run has begun it, and the first unfinished row
// of the run waits for nothing unfinished. The barrier between two turns waits for rows of one run,
// all of which have begun.
// Source: Li (2017), algorithm 3 and kernel SLFR.
template <class F, class V, int C>
__global__ void __launch_bounds__(256)
    selfsched_rows(Matrix<F> T, const int* t_indptr, const int* t_indices, const V* b, V* x,
                   u32* counts, int nrhs, Launch launch) {
    __shared__ u32 ring[4];
    const int lane = threadIdx.x & 31;
    Patience patience;
    Turns turns(ring, launch);
    Row<F, V, C> mine, next;
    Dependents them, next_them;
    const auto load_row = [&](int ahead, Row<F, V, C>& r) {
        r.row = turns.position(ahead) < T.n ? T.order[turns.position(ahead)] : -1;
    };
    const auto load_extents = [&](Row<F, V, C>& r, Dependents& d) {
        r.begin = r.end = d.begin = d.end = 0;
        if (r.row < 0) return;
        r.begin = T.indptr[r.row], r.end = T.indptr[r.row + 1];
        d.begin = t_indptr[r.row], d.end = t_indptr[r.row + 1];
    };
    load_row(0, mine);
    load_extents(mine, them);
    load_entries(T, b, nrhs, lane, mine);
    load_first(t_indices, lane, them);
    while (turns.first(0) < T.n) {
        turns.take(launch);
        load_row(1, next);
        if (mine.row >= 0)
            await_count(counts + mine.row, u32(mine.end - mine.begin), launch, patience, lane);
        load_extents(next, next_them);
        if (mine.row >= 0) {
            substitute_row(T, mine, b, x, nrhs, patience.abandoned, lane);
            notify(counts, t_indices, them, lane);
        }
        load_entries(T, b, nrhs, lane, next);
        load_first(t_indices, lane, next_them);
        mine = next;
        them = next_them;
        turns.next();
    }
}

} // namespace gpuilu
