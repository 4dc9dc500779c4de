// T x = b by columns without set-up of an order: in-degrees, sums in two parts: `syncfree_solve`.
#include "substitution.cuh"

namespace gpuilu {

constexpr int MOST_WARPS = 8; // of a block

// Sums of -t_ij x_j and counts of terms: in shared memory those of the block's own rows, row
// first + k being k, and in device memory those that come from other blocks.
template <class V>
struct Sums {
    V *own, *all;
    u32 *own_counts, *counts;
    int stride, width; // right-hand sides of a row in `own` and in `all`
    int n, rows, lower;
    long long first;

    __device__ int place(int i) const { // in the block, or -1
        const long long k = (lower ? i : n - 1 - i) - first;
        return k < rows ? int(k) : -1;
    }
};

// Subtract t_ij x_j for every i of column j that is INSIDE the block, or for every other, and count
// it: a fence between the terms and the counts. Each group of lanes takes an entry, lane c of it a
// right-hand side. Whole warp.
template <bool INSIDE, class F, class V>
__device__ void spread(const Matrix<F>& T, const Column<F>& mine, const Sums<V>& sums, V x_j, int c,
                       int group, int lane) {
    Entry<F> entry = mine.entry;
#pragma unroll 1
    for (int p = mine.begin + lane / group; p < mine.end;) {
        const int k = sums.place(entry.index);
        const V term = minus_product(V(0), V(entry.value), x_j);
        if (c < sums.width && INSIDE == (k >= 0)) {
            if (INSIDE)
                add_relaxed_shared(sums.own + k * sums.stride + c, term);
            else
                add_relaxed(sums.all + (long long)entry.index * sums.width + c, term);
        }
        p += WARP / group;
        entry = load_entry(T, p, mine.end);
    }
    __syncwarp();
    INSIDE ? fence_block() : fence_device();
#pragma unroll 1
    for (int p = mine.begin + lane; p < mine.end; p += WARP) {
        const int i = group == 1 && p < mine.begin + WARP ? mine.entry.index : T.indices[p];
        const int k = sums.place(i);
        if (INSIDE != (k >= 0)) continue;
        if (INSIDE)
            add_relaxed_shared(sums.own_counts + k, 1u);
        else
            add_relaxed(sums.counts + i, 1u);
    }
}

// Solve T x = b, for right-hand sides c0 to c0 + width <= c0 + 32 of row-major (n, nrhs); b may be x.
// T by columns in natural order; row_ptr by rows, for in-degrees. With T.order T is the triangle
// permuted so: row i of it is row order[i] of x, b, row_ptr and the diagonal. `counts` holds n words of
// all ones, rounded up to 16 bytes, then (n, width) sums of zero. ONE: nrhs is 1. One warp a column;
// as many blocks of at most MOST_WARPS warps as there are columns.
//
// Ordering: terms come before the fence of `spread`, their counts after. A row reads both counters,
// which only grow, until together they have the in-degree, acquiring both; all counts are atomics, so it
// sees every term. Sums in device memory are read past the L1 cache.
// Progress: a block takes its rows by ticket, in the order in which rows can depend on each other:
// the first unfinished row is in a running block and waits for nothing unfinished. After the first
// barrier no warp waits for another but through counters.
// Source: Liu et al. (2016), algorithm 2, which takes blocks to start in order; several right-hand
// sides as in the follow-up of 2017.
template <class F, class V, bool ONE>
__global__ void __launch_bounds__(MOST_WARPS* WARP, ONE ? 8 : 1)
    syncfree_solve(Matrix<F> T, const int* row_ptr, const V* b, V* x, u32* counts, int lower,
                   int nrhs, int c0, Launch launch) {
    constexpr int STRIDE = ONE ? 1 : WARP;
    constexpr int REALS = sizeof(V) / sizeof(Real<V>);
    __shared__ Real<V> own_reals[MOST_WARPS * STRIDE * REALS]; // of a type without constructors
    V* own = reinterpret_cast<V*>(own_reals);
    __shared__ u32 own_counts[MOST_WARPS], ticket;
    const int lane = threadIdx.x & 31, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    if (threadIdx.x == 0) ticket = take_ticket(launch);
    for (int k = threadIdx.x; k < warps * STRIDE; k += blockDim.x) own[k] = V(0);
    if (threadIdx.x < warps) own_counts[threadIdx.x] = 0;
    __syncthreads();
    const long long first = (long long)ticket * warps, position = first + warp;
    if (position >= T.n) return;
    const int width = ONE ? 1 : nrhs - c0 < WARP ? nrhs - c0 : WARP;
    const int group = lanes_an_entry<ONE>(width), c = lane & (group - 1);
    const Sums<V> sums{own,        reinterpret_cast<V*>(counts + ((long long)T.n + 3) / 4 * 4),
                       own_counts, counts,
                       STRIDE,     width,
                       T.n,        warps,
                       lower,      first};
    const int j = int(lower ? position : T.n - 1 - position);
    Column<F> mine;
    mine.row = T.order ? T.order[j] : j;
    mine.begin = T.indptr[j];
    mine.end = T.indptr[j + 1];
    const u32 awaited = row_ptr[mine.row + 1] - row_ptr[mine.row];
    load_entries(T, group, lane, mine);
    const long long at = (long long)mine.row * nrhs + c0 + c;
    V value = c < width ? b[at] : V(0);
    Patience patience;
    await_counts(counts + j, own_counts + warp, awaited, launch, patience, lane);
    if (patience.abandoned) {
        value = not_a_number<V>();
    } else if (awaited && c < width) {
        value = plus(value, load_value(sums.all + (long long)j * width + c));
        value = plus(value, own[warp * STRIDE + c]);
    }
    if (T.diag) value = over(value, V(mine.diag));
    __syncwarp(); // every lane has read b_j
    if (lane < width) x[at] = value;
    if (mine.begin == mine.end) return;
    spread<true>(T, mine, sums, value, c, group, lane);
    spread<false>(T, mine, sums, value, c, group, lane);
}

} // namespace gpuilu
