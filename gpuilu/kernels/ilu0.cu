// (L U)_ij = a_ij on the pattern of A: ILU(0), self-scheduled, one warp a row.
#include "sync.cuh"

namespace gpuilu {

struct Pattern {
    int n;
    const int *indptr, *indices, *diagonal;
    const int* order; // rows by level of the strict lower triangle
};

// What is told about pivots: smallest rows, and a count (which starts at all ones, minus one).
constexpr int ZERO_PIVOT = 0, NOT_FINITE = 1, BOOSTED = 2;

// Position of column j in the ascending indices[low .. high), or -1.
__device__ inline int find_column(const int* indices, int low, int high, int j) {
    const int end = high;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (indices[middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && indices[low] == j ? low : -1;
}

template <class V>
__device__ Real<V> largest_in_row(const V* LU, int begin, int end, int lane) {
    Real<V> largest = 0;
    for (int p = begin + lane; p < end; p += 32) largest = fmax(largest, magnitude(LU[p]));
    for (int o = 16; o > 0; o /= 2) largest = fmax(largest, __shfl_xor_sync(FULL_WARP, largest, o));
    return largest;
}

// Raise a small pivot to `floor`, keeping its sign or phase; report zeros either way.
template <class V>
__device__ void mend_pivot(V* pivot, Real<V> floor, int row, u32* report) {
    const bool zero = is_zero(*pivot);
    if (zero) report_row(report + ZERO_PIVOT, row);
    const Real<V> size = magnitude(*pivot);
    if (!(size < floor)) return;
    *pivot = zero ? V(floor) : times(over(*pivot, V(size)), V(floor));
    atomicAdd(report + BOOSTED, 1u);
}

// Row i -= l_ik * (row k right of its diagonal), on the pattern of row i, for k ascending.
template <class V>
__device__ void reduce_row(const Pattern& A, int i, V* LU, const u32* finished, Launch launch,
                           Patience& patience, int lane) {
    const int begin = A.indptr[i], end = A.indptr[i + 1];
    for (int p = begin; p < A.diagonal[i]; ++p) {
        const int k = A.indices[p];
        await_flag(finished + k, launch, patience, lane);
        const int pivot = A.diagonal[k], k_end = A.indptr[k + 1];
        const V l = over(LU[p], LU[pivot]);
        __syncwarp(); // every lane has read a_ik
        if (lane == 0) LU[p] = l;
        for (int q = pivot + 1 + lane; q < k_end; q += 32) {
            const int t = find_column(A.indices, p + 1, end, A.indices[q]);
            if (t >= 0) LU[t] = minus_product_unfused(LU[t], l, LU[q]);
        }
        __syncwarp(); // the next k reads what any lane has written
    }
}

// Factor LU (the values of A on entry) in place. `finished` and `report` are all ones on entry.
// boost > 0: pivots below boost * (largest entry of their row, or `scale` for a row of zeros), but at
// least `tiny`, are raised to that. One warp a row, rows taken by ticket in level order; any grid of whole warps.
//
// Ordering: row k is written by one warp, which then sets finished[k] with release order (after a
// __syncwarp, so that all its lanes' stores are covered); a reader polls it with acquire loads in every
// lane before it reads row k by plain loads. Within a warp __syncwarp orders the lanes' accesses.
// Progress: a row depends on rows of smaller levels, whose tickets are smaller; a warp holds one
// ticket at a time. A row with a bad pivot is finished and published like any other.
// The arithmetic is unfused and ascends in k, as on the CPU: the same bits for real types.
// Source: Saad 2003, algorithm 10.4; scheduling as in Li 2017, section 4.
template <class V>
__global__ void __launch_bounds__(256)
    ilu0_factor(Pattern A, V* LU, Real<V> boost, Real<V> scale, Real<V> tiny, u32* finished,
                u32* report, Launch launch) {
    const int lane = threadIdx.x & 31;
    Patience patience;
    while (true) {
        u32 ticket = lane == 0 ? take_ticket(launch) : 0u;
        ticket = __shfl_sync(FULL_WARP, ticket, 0);
        if (ticket >= u32(A.n)) return;
        const int i = A.order[ticket];
        const int begin = A.indptr[i], end = A.indptr[i + 1], d = A.diagonal[i];
        const Real<V> largest = boost > 0 ? largest_in_row(LU, begin, end, lane) : Real<V>(0);
        reduce_row(A, i, LU, finished, launch, patience, lane);
        // A row without lower entries has its pivot first: only lane 0 has read it, for `largest`.
        const Real<V> floor =
            boost > 0 ? fmax(boost * (largest > 0 ? largest : scale), tiny) : Real<V>(0);
        if (lane == 0) mend_pivot(LU + d, floor, i, report);
        __syncwarp();
        for (int p = begin + lane; p < end; p += 32)
            if (!is_finite(LU[p])) report_row(report + NOT_FINITE, i);
        set_flag(finished + i, lane);
    }
}

} // namespace gpuilu
