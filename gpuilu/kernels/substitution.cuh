// Substitution by rows and by columns as Li (2017) has it, one warp each: what the level-scheduled
// and the self-scheduled kernels share.
#pragma once
#include "sync.cuh"

namespace gpuilu {

constexpr int WARP = 32;

// A strict triangle by rows or by columns, and its diagonal: null for ones. `order` lists the rows
// by level.
template <class F>
struct Matrix {
    int n;
    const int *order, *indptr, *indices;
    const F *data, *diag;
};

// The entry of a row or a column that a lane has in registers.
template <class F>
struct Entry {
    int index;
    F value;
};

template <class F>
__device__ Entry<F> load_entry(const Matrix<F>& T, int p, int end) {
    Entry<F> entry{-1, F(0)};
    if (p < end) entry = {T.indices[p], T.data[p]};
    return entry;
}

// ---- rows ---------------------------------------------------------------------------------------
// One row in registers: the first 32 entries, one a lane; diagonal and right-hand side in lane 0.
template <class F, class V, int C>
struct Row {
    int row, begin, end;
    Entry<F> entry;
    F diag;
    V b[C];
};

template <class V, int C>
__device__ void load_b(const V* b, int row, int nrhs, int c0, V (&s)[C]) {
#pragma unroll
    for (int c = 0; c < C; ++c) s[c] = c0 + c < nrhs ? b[(long long)row * nrhs + c0 + c] : V(0);
}

template <class F, class V, int C>
__device__ void load_entries(const Matrix<F>& T, const V* b, int nrhs, int lane,
                             Row<F, V, C>& mine) {
    mine.entry = load_entry(T, mine.begin + lane, mine.end);
    if (lane || mine.row < 0) return;
    if (T.diag) mine.diag = T.diag[mine.row];
    load_b<V, C>(b, mine.row, nrhs, 0, mine.b);
}

// x_i = (b_i - sum t_ij x_j) / t_ii, by a whole warp, C right-hand sides at once. The order of the
// sum does not depend on nrhs. b may be x: lane 0 reads b_i before it writes x_i. After an abandoned
// wait x_i is NaN, because some x_j may be missing.
template <class F, class V, int C>
__device__ void substitute_row(const Matrix<F>& T, const Row<F, V, C>& mine, const V* b, V* x,
                               int nrhs, bool abandoned, int lane) {
    for (int c0 = 0; c0 < nrhs; c0 += C) {
        V s[C];
#pragma unroll
        for (int c = 0; c < C; ++c) s[c] = lane == 0 ? mine.b[c] : V(0);
        if (c0 && lane == 0) load_b<V, C>(b, mine.row, nrhs, c0, s);
        Entry<F> entry = mine.entry;
        for (int p = mine.begin + lane; p < mine.end; p += WARP) {
            if (p >= mine.begin + WARP) entry = load_entry(T, p, mine.end);
            const V* x_j = x + (long long)entry.index * nrhs + c0;
#pragma unroll
            for (int c = 0; c < C; ++c)
                if (c0 + c < nrhs) s[c] = minus_product(s[c], V(entry.value), load_value(x_j + c));
        }
#pragma unroll
        for (int c = 0; c < C; ++c) {
#pragma unroll
            for (int o = WARP / 2; o > 0; o /= 2)
                s[c] = plus(s[c], shuffle_xor(FULL_WARP, s[c], o));
            if (lane || c0 + c >= nrhs) continue;
            if (T.diag) s[c] = over(s[c], V(mine.diag));
            store_value(x + (long long)mine.row * nrhs + c0 + c,
                        abandoned ? not_a_number<V>() : s[c]);
        }
    }
}

// ---- columns ------------------------------------------------------------------------------------
// One column in registers: the first entries, one a group of lanes.
template <class F>
struct Column {
    int row, begin, end;
    Entry<F> entry;
    F diag;
};

// Lanes that share an entry, one for each right-hand side: a power of two.
template <bool ONE>
__device__ int lanes_an_entry(int nrhs) {
    if (ONE) return 1;
    return nrhs >= WARP ? WARP : 1 << (32 - __clz(nrhs - 1));
}

template <class F>
__device__ void load_extent(const Matrix<F>& T, long long position, Column<F>& mine) {
    mine = {-1, 0, 0, {-1, F(0)}, F(0)};
    if (position >= T.n) return;
    mine.row = T.order[position];
    mine.begin = T.indptr[position];
    mine.end = T.indptr[position + 1];
}

template <class F>
__device__ void load_entries(const Matrix<F>& T, int group, int lane, Column<F>& mine) {
    mine.entry = load_entry(T, mine.begin + lane / group, mine.end);
    if (T.diag && mine.row >= 0) mine.diag = T.diag[mine.row];
}

// x_j <- x_j / t_jj, then x_i <- x_i - t_ij x_j for all i of column j, by a whole warp: x_j holds
// b_j less all that had to be subtracted. Each group of lanes takes an entry, each lane of it a
// right-hand side.
template <bool ONE, class F, class V>
__device__ void eliminate_column(const Matrix<F>& T, const Column<F>& mine, V* x, int nrhs,
                                 int group, bool abandoned, int lane) {
    const int c = lane & (group - 1);
    for (int c0 = 0; c0 < nrhs; c0 += group) {
        const bool active = ONE || c0 + c < nrhs;
        V* x_j = x + (long long)mine.row * nrhs + c0 + c;
        V value = V(0);
        if (active) value = abandoned ? not_a_number<V>() : load_value(x_j);
        if (T.diag) value = over(value, V(mine.diag));
        __syncwarp(); // every lane has read x_j
        if (active && lane < group) store_value(x_j, value);
        Entry<F> entry = mine.entry;
#pragma unroll 1
        for (int p = mine.begin + lane / group; p < mine.end;) {
            if (active)
                add_relaxed(x + (long long)entry.index * nrhs + c0 + c,
                            minus_product(V(0), V(entry.value), value));
            p += WARP / group;
            entry = load_entry(T, p, mine.end);
        }
    }
}

// Those who wait for a row: indices[begin .. end), the first 32 in registers, one a lane.
struct Dependents {
    int begin, end, first;
};

__device__ inline void load_first(const int* indices, int lane, Dependents& them) {
    them.first = them.begin + lane < them.end ? indices[them.begin + lane] : -1;
}

// Tell them that what this warp has done so far is done: one fence, then a count each. Whole warp.
__device__ inline void notify(u32* counts, const int* indices, const Dependents& them, int lane) {
    if (them.begin == them.end) return;
    __syncwarp();
    fence_device();
    if (them.first >= 0) add_relaxed(counts + them.first, 1u);
#pragma unroll 1
    for (int p = them.begin + lane + WARP; p < them.end; p += WARP)
        add_relaxed(counts + indices[p], 1u);
}

// ---- turns --------------------------------------------------------------------------------------
// Tickets of a block, one for each run of as many positions as it has warps. They are taken two
// turns ahead, so that a warp can load what it will need next while it waits.
struct Turns {
    u32* ring; // 4 words of shared memory
    u32 turn, taken;

    __device__ Turns(u32* shared, Launch launch) : ring(shared), turn(0), taken(0) {
        if (threadIdx.x == 0)
            for (int k = 0; k < 2; ++k) ring[k] = take_ticket(launch);
        __syncthreads();
    }
    __device__ long long first(int ahead) const {
        return (long long)ring[(turn + ahead) & 3] * (blockDim.x / WARP);
    }
    __device__ long long position(int ahead) const { return first(ahead) + threadIdx.x / WARP; }
    __device__ void take(Launch launch) {
        if (threadIdx.x == 0) taken = take_ticket(launch);
    }
    // Whole block; nobody waits for work of the block after it.
    __device__ void next() {
        if (threadIdx.x == 0) ring[(turn + 2) & 3] = taken;
        ++turn;
        __syncthreads();
    }
};

} // namespace gpuilu
