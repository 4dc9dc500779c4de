// T x = b with the rows in level order and the value itself as the ready mark: `row_solve`.
#include "sync.cuh"

namespace gpuilu {

// The triangle as `row_solve` reads it: rows by position in level order, columns as positions.
// Task q is the run of rows task_ptr[q] .. task_ptr[q + 1], never across two levels and never more
// than a warp holds. `row` is the row in x, or -1 for a segment of a long row, which has no b and a
// unit diagonal. `scale` is 1 / diagonal, or zero where only the division is safe; `diag` is in the
// order of x.
template <class F>
struct Rows {
    int n_tasks;
    const int *task_ptr, *indptr, *indices, *row;
    const F *data, *scale, *diag;
};

// One row's static data, in registers before the row has to wait.
template <class F, class V, int R>
struct Row {
    int position, row, begin, end;
    int column[R];
    F value[R], scale;
};

template <class F, class V, int G, int R>
__device__ void load_extent(const Rows<F>& T, u32 task, int lane, Row<F, V, R>& mine) {
    mine.position = -1;
    if (task >= u32(T.n_tasks)) return;
    const int position = T.task_ptr[task] + lane / G;
    if (position >= T.task_ptr[task + 1]) return;
    mine.position = position;
    mine.row = T.row[position];
    mine.begin = T.indptr[position] + lane % G;
    mine.end = T.indptr[position + 1];
}

template <class F, class V, int G, int R, bool UNIT>
__device__ void load_entries(const Rows<F>& T, int lane, Row<F, V, R>& mine) {
    if (mine.position < 0) return;
    if (!UNIT && lane % G == 0) mine.scale = T.scale[mine.position];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int p = mine.begin + r * G;
        mine.column[r] = p < mine.end ? T.indices[p] : -1;
        if (p < mine.end) mine.value[r] = T.data[p];
    }
}

template <class V, class F>
__device__ V as_value(F t) {
    return V(t);
}

// s[c] -= sum of t_ij y_j over one batch of R entries a lane, C columns at once.
template <class F, class V, int R, int C>
__device__ void subtract_batch(const int (&column)[R], const F (&t)[R], const V* y, int nrhs,
                               int c0, V (&s)[C], Launch launch, Patience& patience, int lane) {
    const V* slot[R * C];
    V value[R * C];
    u32 wanted = 0;
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int c = 0; c < C; ++c) {
            slot[r * C + c] = y + (long long)column[r] * nrhs + c0 + c;
            if (column[r] >= 0 && c0 + c < nrhs) wanted |= 1u << (r * C + c);
        }
    await(slot, wanted, value, launch, patience, lane);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int c = 0; c < C; ++c)
            if (wanted >> (r * C + c) & 1u)
                s[c] = minus_product(s[c], as_value<V>(t[r]), value[r * C + c]);
}

// s / t_ii; the reciprocal serves only where it is as precise as s. A segment has t_ii = 1.
template <class F, class V, int R>
__device__ V divided(V s, const Rows<F>& T, const Row<F, V, R>& mine) {
    if (mine.row < 0) return s;
    if (sizeof(F) < sizeof(V) || is_zero(mine.scale)) return over(s, as_value<V>(T.diag[mine.row]));
    return times(s, as_value<V>(mine.scale));
}

// Columns c0 .. c0 + C of one task's rows.
template <class F, class V, int G, int R, int C, bool UNIT>
__device__ void solve_columns(const Rows<F>& T, const Row<F, V, R>& mine, const V* b, V* x, V* y,
                              int nrhs, int c0, Launch launch, Patience& patience, int lane) {
    const bool mine_is_row = mine.position >= 0;
    const bool leads = mine_is_row && lane % G == 0;
    const bool has_x = leads && mine.row >= 0;
    V s[C];
#pragma unroll
    for (int c = 0; c < C; ++c)
        s[c] = has_x && c0 + c < nrhs ? b[(long long)mine.row * nrhs + c0 + c] : V(0);
    int column[R];
    F value[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        column[r] = mine_is_row ? mine.column[r] : -1;
        value[r] = mine.value[r];
    }
    int first = mine.begin;
    while (true) {
        subtract_batch<F, V, R, C>(column, value, y, nrhs, c0, s, launch, patience, lane);
        first += R * G;
        if (!__any_sync(FULL_WARP, mine_is_row && first < mine.end)) break;
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const int p = first + r * G;
            column[r] = mine_is_row && p < mine.end ? T.indices[p] : -1;
            if (column[r] >= 0) value[r] = T.data[p];
        }
    }
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int o = G / 2; o > 0; o /= 2) s[c] = plus(s[c], shuffle_xor(FULL_WARP, s[c], o));
        if (!leads || c0 + c >= nrhs) continue;
        if (!UNIT) s[c] = divided(s[c], T, mine);
        publish(y + (long long)mine.position * nrhs + c0 + c, s[c]);
        if (has_x) x[(long long)mine.row * nrhs + c0 + c] = s[c];
    }
}

// Solve T x = b, row-major (n, nrhs); b may be x. y, in level order and marked "not ready", carries
// the values from row to row. G lanes a row, R entries a lane in flight, one warp a
// task, C right-hand sides at once. Any grid of blocks of whole warps; 256 threads at most.
//
// Ordering: a row reads y_j by relaxed polls until the mark is gone; the word is the value, written
// once by one relaxed store, so no other memory is communicated and no fence is needed. b_i is read and
// x_i written by the lane that owns row i, in this order, and by no other: b may be x.
// Progress: tasks are taken in level order; a warp works off its tasks in the order in which it
// drew them, so the holder of the smallest unfinished task is running it, and what that task waits
// for is finished. Rows of one task are of one level and never wait for each other.
// Source: Liu et al. 2016 (no barrier between levels); Dufrechou and Ezzatti 2018 (NaN as the mark).
template <class F, class V, int G, int R, int C, bool UNIT>
__global__ void __launch_bounds__(256)
    row_solve(Rows<F> T, const V* b, V* x, V* y, int nrhs, Launch launch) {
    __shared__ BlockTickets tickets;
    const int lane = threadIdx.x & 31;
    tickets.reset();
    __syncthreads();
    Patience patience;
    Row<F, V, R> current, next;
    // Three tickets ahead: the one in flight, the one whose extent loads, the one whose entries load.
    u32 task = 0, upcoming = 0, taken = 0;
    if (lane == 0) {
        task = tickets.take(launch);
        upcoming = tickets.take(launch);
        taken = tickets.take(launch);
    }
    task = __shfl_sync(FULL_WARP, task, 0);
    upcoming = __shfl_sync(FULL_WARP, upcoming, 0);
    load_extent<F, V, G, R>(T, task, lane, current);
    load_entries<F, V, G, R, UNIT>(T, lane, current);
    load_extent<F, V, G, R>(T, upcoming, lane, next);
    while (task < u32(T.n_tasks)) {
        Row<F, V, R> after;
        load_entries<F, V, G, R, UNIT>(T, lane, next);
        const u32 last = __shfl_sync(FULL_WARP, taken, 0);
        load_extent<F, V, G, R>(T, last, lane, after);
        if (lane == 0) taken = tickets.take(launch);
        for (int c0 = 0; c0 < nrhs; c0 += C)
            solve_columns<F, V, G, R, C, UNIT>(T, current, b, x, y, nrhs, c0, launch, patience,
                                               lane);
        task = upcoming;
        upcoming = last;
        current = next;
        next = after;
    }
}

// scale = 1 / diagonal of each row in order, where both are safely away from the ends of the range;
// else 0, and 1 for a segment.
template <class F>
__global__ void reciprocals(int n, const int* row, const F* diag, F* scale) {
    const int position = blockIdx.x * blockDim.x + threadIdx.x;
    if (position >= n) return;
    const F d = row[position] < 0 ? F(1) : diag[row[position]];
    const Real<F> size = magnitude(d);
    const Real<F> small = sizeof(Real<F>) == 4 ? Real<F>(1e-36) : Real<F>(1e-300);
    const bool safe = size > small && size < Real<F>(1) / small;
    scale[position] = safe ? over(F(1), d) : F(0);
}

} // namespace gpuilu
