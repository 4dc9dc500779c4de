// T x = b with the rows in level order and the value itself as the ready mark: `row_solve` for one
// right-hand side, `row_columns` for several.
#include "sync.cuh"

namespace gpuilu {

// The triangle as both read it: rows by position in level order, columns as positions.
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

// Which part of which row of a task a lane has: of the row's entries every `parts`-th. The lanes of a row's
// parts are `apart`. Of its packs of columns the lane has `pack`, `pack` + `packs`, ...
struct Place {
    int row, part, parts, apart, pack, packs;
};

// b and x by row, (n, nrhs), and y by position, (n_positions, packs); C columns a pack.
template <class V, int C>
struct Vectors {
    const V* b;
    V* x;
    Pack<V, C>* y;
    int nrhs, packs;

    __device__ bool has(int pack, int c) const { return C == 1 || pack * C + c < nrhs; }
    __device__ long long at(int row, int pack) const { return (long long)row * nrhs + pack * C; }
    __device__ Pack<V, C>* slot(int position, int pack) const {
        return y + ((long long)position * packs + pack);
    }
};

// One row's static data and b of its first pack, in registers before the row has to wait.
template <class F, class V, int R, int C>
struct Row {
    int position, row, begin, end;
    int column[R];
    F value[R], scale;
    Pack<V, C> b;
};

// The row at `start` + place.row, if that is below `end`.
template <class F, class V, int R, int C>
__device__ void load_extent(const Rows<F>& T, int start, int end, Place place,
                            Row<F, V, R, C>& mine) {
    const int position = start + place.row;
    if (position >= end) return;
    mine.position = position;
    mine.row = T.row[position];
    mine.begin = T.indptr[position] + place.part;
    mine.end = T.indptr[position + 1];
}

// b of a pack of the row, for the lane that has the row's first part; else zero.
template <class F, class V, int R, int C>
__device__ Pack<V, C> load_b(const Vectors<V, C>& on, Place place, int pack,
                             const Row<F, V, R, C>& mine) {
    const bool has = mine.position >= 0 && mine.row >= 0 && place.part == 0 && pack < on.packs;
    Pack<V, C> b;
#pragma unroll
    for (int c = 0; c < C; ++c)
        b.v[c] = has && on.has(pack, c) ? on.b[on.at(mine.row, pack) + c] : V(0);
    return b;
}

template <bool UNIT, class F, class V, int R, int C>
__device__ void load_entries(const Rows<F>& T, const Vectors<V, C>& on, Place place,
                             Row<F, V, R, C>& mine) {
    if (mine.position < 0) return;
    if (!UNIT && place.part == 0) mine.scale = T.scale[mine.position];
    mine.b = load_b(on, place, place.pack, mine);
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int p = mine.begin + r * place.parts;
        mine.column[r] = p < mine.end ? T.indices[p] : -1;
        if (p < mine.end) mine.value[r] = T.data[p];
    }
}

// s / t_ii; the reciprocal serves only where it is as precise as s. A segment has t_ii = 1.
template <class F, class V, int R, int C>
__device__ V divided(V s, const Rows<F>& T, const Row<F, V, R, C>& mine) {
    if (mine.row < 0) return s;
    if (sizeof(F) < sizeof(V) || is_zero(mine.scale)) return over(s, V(T.diag[mine.row]));
    return times(s, V(mine.scale));
}

// s[0] = sum of all: the first half plus the second, entry by entry, and so on.
template <int N, class V, int C, int SUMS>
__device__ void add_halves(Pack<V, C> (&s)[SUMS]) {
    if constexpr (N > 1) {
#pragma unroll
        for (int k = 0; k < N / 2; ++k)
#pragma unroll
            for (int c = 0; c < C; ++c) s[k].v[c] = plus(s[k].v[c], s[k + N / 2].v[c]);
        add_halves<N / 2>(s);
    }
}

// The columns of one pack of one row, of which the lane has a part if there is that pack: its r-th entry counts
// for sum r mod SUMS. So a row's entries are added up in the same order by SUMS parts of one sum as by one part
// of SUMS.
template <bool UNIT, int SUMS, class F, class V, int R, int C>
__device__ void solve_pack(const Rows<F>& T, const Row<F, V, R, C>& mine, const Pack<V, C>& b,
                           Place place, const Vectors<V, C>& on, int pack, Launch launch,
                           Patience& patience, int lane) {
    static_assert(R % SUMS == 0);
    const bool mine_is_row = mine.position >= 0 && pack < on.packs;
    const bool leads = mine_is_row && place.part == 0;
    const bool has_x = leads && mine.row >= 0;
    Pack<V, C> s[SUMS];
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int k = 0; k < SUMS; ++k) s[k].v[c] = k == 0 ? b.v[c] : V(0);
    }
    int column[R];
    F t[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        column[r] = mine_is_row ? mine.column[r] : -1;
        t[r] = mine.value[r];
    }
    int first = mine.begin;
    while (true) {
        const Pack<V, C>* slot[R];
        Pack<V, C> value[R];
        u32 wanted = 0;
#pragma unroll
        for (int r = 0; r < R; ++r) {
            slot[r] = on.slot(column[r], pack);
            if (column[r] >= 0) wanted |= 1u << r;
        }
        await(slot, wanted, value, launch, patience, lane);
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
            for (int c = 0; c < C; ++c) {
                V& sum = s[r % SUMS].v[c];
                if (wanted >> r & 1u) sum = minus_product(sum, V(t[r]), value[r].v[c]);
            }
        first += R * place.parts;
        if (!__any_sync(FULL_WARP, mine_is_row && first < mine.end)) break;
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const int p = first + r * place.parts;
            column[r] = mine_is_row && p < mine.end ? T.indices[p] : -1;
            if (column[r] >= 0) t[r] = T.data[p];
        }
    }
    add_halves<SUMS>(s);
#pragma unroll
    for (int c = 0; c < C; ++c) {
        V& sum = s[0].v[c];
#pragma unroll
        for (int n = place.parts / 2; n > 0; n /= 2)
            sum = plus(sum, shuffle_xor(FULL_WARP, sum, n * place.apart));
    }
    if (!leads) return; // one region for what follows: two would cost 2 % of a solve
    if (!UNIT) {
#pragma unroll
        for (int c = 0; c < C; ++c) s[0].v[c] = divided(s[0].v[c], T, mine);
    }
    publish(on.slot(mine.position, pack), s[0]);
#pragma unroll
    for (int c = 0; c < C; ++c)
        if (has_x && on.has(pack, c)) on.x[on.at(mine.row, pack) + c] = s[0].v[c];
}

// All packs that a lane has of a row; all lanes together.
template <bool UNIT, int SUMS, class F, class V, int R, int C>
__device__ void solve_row(const Rows<F>& T, const Row<F, V, R, C>& mine, Place place,
                          const Vectors<V, C>& on, Launch launch, Patience& patience, int lane) {
    Pack<V, C> b = mine.b;
    for (int p = 0; p < on.packs; p += place.packs) {
        if (p > 0) b = load_b(on, place, p + place.pack, mine);
        solve_pack<UNIT, SUMS>(T, mine, b, place, on, p + place.pack, launch, patience, lane);
    }
}

// Solve row after row that the tickets give, with the static data of the next one under way and those of the
// one after begun; load(ticket, row) finds where a row begins and ends.
template <bool UNIT, int SUMS, int R, class F, class V, int C, class Load>
__device__ void solve_by_tickets(const Rows<F>& T, u32 n_tickets, const Vectors<V, C>& on,
                                 Place place, Launch launch, int lane, Load load) {
    __shared__ BlockTickets tickets;
    tickets.reset();
    __syncthreads();
    Patience patience;
    Row<F, V, R, C> current, next;
    // Three tickets ahead: the one in flight, the one whose extent loads, the one whose entries load.
    u32 ticket = 0, upcoming = 0, taken = 0;
    if (lane == 0) {
        ticket = tickets.take(launch);
        upcoming = tickets.take(launch);
        taken = tickets.take(launch);
    }
    ticket = __shfl_sync(FULL_WARP, ticket, 0);
    upcoming = __shfl_sync(FULL_WARP, upcoming, 0);
    load(ticket, current);
    load_entries<UNIT>(T, on, place, current);
    load(upcoming, next);
    while (ticket < n_tickets) {
        Row<F, V, R, C> after;
        load_entries<UNIT>(T, on, place, next);
        const u32 last = __shfl_sync(FULL_WARP, taken, 0);
        load(last, after);
        if (lane == 0) taken = tickets.take(launch);
        solve_row<UNIT, SUMS>(T, current, place, on, launch, patience, lane);
        ticket = upcoming;
        upcoming = last;
        current = next;
        next = after;
    }
}

// Solve T x = b for one right-hand side; b may be x. y, in level order and marked "not ready", carries
// the values from row to row. G lanes a row, R entries a lane in flight, one warp a task. Any grid of
// blocks of whole warps; 256 threads at most.
//
// Ordering: a row reads y_j by relaxed polls until the mark is gone; the word is the value, written
// once by one relaxed store, so no other memory is communicated and no fence is needed. b_i is read and
// x_i written by the lane that owns row i, in this order, and by no other: b may be x.
// Progress: tasks are taken in level order; a warp works off its tasks in the order in which it
// drew them, so the holder of the smallest unfinished task is running it, and what that task waits
// for is finished. Rows of one task are of one level and never wait for each other.
// Source: Liu et al. 2016 (no barrier between levels); Dufrechou and Ezzatti 2018 (NaN as the mark).
template <class F, class V, int G, int R, bool UNIT>
__global__ void __launch_bounds__(256) row_solve(Rows<F> T, const V* b, V* x, V* y, Launch launch) {
    // One pack, but the compiler must not see that: with the registers that it then saves more blocks run at
    // once, and a solve takes up to 8 % longer.
    const Vectors<V, 1> on{b, x, reinterpret_cast<Pack<V, 1>*>(y), 1, int(kept(1))};
    const int lane = threadIdx.x & 31;
    const Place place{lane / G, lane % G, G, 1, 0, 1};
    const u32 n_tasks = u32(T.n_tasks);
    const auto load = [&](u32 task, Row<F, V, R, 1>& mine) {
        mine.position = -1;
        if (task < n_tasks) load_extent(T, T.task_ptr[task], T.task_ptr[task + 1], place, mine);
    };
    solve_by_tickets<UNIT, 1, R>(T, n_tasks, on, place, launch, lane, load);
}

// How a warp solves several columns at once: packs lie in that many lanes side by side, every `parts`-th entry
// of a row in as many of these groups; a task is cut into 2^cuts tickets. All are powers of two.
struct Spread {
    int packs;
    alignas(8) int parts;
    alignas(8) int cuts;
};

// Solve T x = b, row-major (n, nrhs), as `row_solve` does: the bits are the same. SUMS * spread.parts is the
// number of its lanes a row. Columns of y are filled up to whole packs of 16 bytes.
//
// Ordering and progress: as in row_solve; a lane has the packs p, p + spread.packs, ... of its row, and
// each is read from b and written to x by one lane. Tickets are parts of tasks, in the order of these.
template <class F, class V, int SUMS, bool UNIT>
__global__ void __launch_bounds__(256)
    row_columns(Rows<F> T, const V* b, V* x, V* y, int nrhs, Spread spread, Launch launch) {
    constexpr int C = 16 / sizeof(V), R = SUMS > 4 ? SUMS : 4;
    const Vectors<V, C> on{b, x, reinterpret_cast<Pack<V, C>*>(y), nrhs, (nrhs + C - 1) / C};
    const int lane = threadIdx.x & 31, group = lane / spread.packs, pack = lane % spread.packs;
    const Place place{group / spread.parts, group % spread.parts, spread.parts, spread.packs, pack,
                      spread.packs};
    const int rows = 32 / (spread.packs * spread.parts);
    const u32 n_tickets = u32(T.n_tasks) << spread.cuts;
    const auto load = [&](u32 ticket, Row<F, V, R, C>& mine) {
        mine.position = -1;
        if (ticket >= n_tickets) return;
        const int task = int(ticket >> spread.cuts);
        const int cut = int(ticket & ((1u << spread.cuts) - 1u));
        load_extent(T, T.task_ptr[task] + cut * rows, T.task_ptr[task + 1], place, mine);
    };
    solve_by_tickets<UNIT, SUMS, R>(T, n_tickets, on, place, launch, lane, load);
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
