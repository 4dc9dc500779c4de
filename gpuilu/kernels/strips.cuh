// A strip of rows inside one block: the gatherers fetch what comes from elsewhere, the sweeper
// (sweep.cuh) solves. blocked.cu has the kernels, and how the two are ordered.
#pragma once
#include "sync.cuh"

namespace gpuilu {

using u16 = unsigned short;

constexpr int WINDOW = 2048;   // latest values of a strip that its block keeps in shared memory
constexpr u32 PAUSE_NS = 100;  // between polls that nobody waits for
constexpr u32 MOST_STEPS = 64; // in the ring

// The triangle as `strips_solve` reads it, rows by position in the order in which they are solved. Strip
// t is steps step_ptr[t] .. step_ptr[t + 1]; step q is positions step_start[q] .. step_start[q + 1], 32 at
// most, of rows that do not depend on each other, one a lane or, where step_shares[q] is n > 0, one for
// every 2^n lanes. `row` is the row in x, or -1 for a segment of a long row: no b and a unit diagonal. A row's latest K dependencies in its own strip
// are `near`, as slots of the window (WINDOW: none); the others are `far`, as positions. `scale`
// is 1 / diagonal, or zero where only the division is safe; `diag` is in the order of x. `info`,
// `records` (RingStep, with scale for r) and `far_entries` say the same for gatherers that copy
// (strips_copied.cuh). With `shares_far` lanes without a row have a part of the far entries of others: for
// all numbers of columns, or none, so that all columns have the same bits. `place` is the position of each of
// `n_rows` rows, or null.
struct StepInfo;
template <class F>
struct Strips {
    int n_strips;
    alignas(8) int n_positions;
    alignas(8) int shares_far;
    alignas(8) int n_rows;
    const int *step_ptr, *step_start, *step_shares, *row, *far_ptr, *far_position;
    const F* far_data;
    const u16* near_slot;
    const F *near_data, *scale, *diag;
    const StepInfo* info;
    const void *records, *far_entries;
    const int* place;
};

// Where b is: a position's is in row row[position], zero if that is -1. Rows are `of_row` values apart (of a single
// column one), a group of C columns and the next `of_group`. For gatherers that copy it is by position.
struct Source {
    const int* row;
    long long of_row, of_group;
};

// C columns, of which b has `there`, or more; the others are for b = 0.
template <class V, int C>
struct Columns {
    const V* b;
    Pack<V, C>* y;
    Source from;
    int there;

    __device__ Columns(const V* b, Source from, V* y, int n_positions, int group, int nrhs)
        : b(C == 1 ? b : b + group * from.of_group),
          y(kept(reinterpret_cast<Pack<V, C>*>(y) + (C == 1 ? 0 : (long long)group * n_positions))),
          from(from), there(nrhs - group * C) {}

    __device__ bool has(int c) const { return C == 1 || c < there; }
};

// Two 16-bit slots a word, unpacked only where they are used: sooner would be to wait for them.
template <int K>
using Slots = Pack<u32, K / 2>;
template <int K>
__device__ u32 slot_of(const Slots<K>& slots, int k) {
    return slots.v[k / 2] >> 16 * (k % 2) & 0xffffu;
}

// Near entries that one lane subtracts. Where rows may have more, each row of a step is given 2^n lanes,
// the fewer rows having room in a step.
constexpr int MOST_OF_LANE = 8, SHARE_OF_LANE = 4;
__device__ constexpr int near_of_lane(int K) {
    return K <= MOST_OF_LANE ? K : SHARE_OF_LANE;
}
// What the ring says of a step: how many rows, and n.
__device__ inline u32 rows_and_shares(u32 rows, u32 n) {
    return rows | n << 16;
}
__device__ inline u32 rows_of(u32 rows_and_shares) {
    return rows_and_shares & 0xffffu;
}
__device__ inline u32 shares_of(u32 rows_and_shares) {
    return rows_and_shares >> 16;
}

// How K values of each row, or of each position, lie in shared memory: in pieces of 16 bytes, those of all
// rows side by side. One after the other they would be in the banks of others.
template <class V, int K>
struct Pieces {
    static constexpr int COUNT = sizeof(V) * K <= 16 ? 1 : sizeof(V) * K / 16, EACH = K / COUNT;
    using Piece = Pack<V, EACH>;
    static constexpr u32 BYTES = u32(sizeof(Piece));
};
// The first piece is at `at`, pieces are `apart`.
template <class V, int K>
__device__ Pack<V, K> read_pieces(bool held, SharedAddress at, u32 apart) {
    using P = Pieces<V, K>;
    Pack<V, K> values;
#pragma unroll
    for (int j = 0; j < P::COUNT; ++j) {
        const auto piece = read_shared_if<typename P::Piece>(held, at + j * apart);
#pragma unroll
        for (int k = 0; k < P::EACH; ++k) values.v[j * P::EACH + k] = piece.v[k];
    }
    return values;
}
template <class V, int K>
__device__ void write_pieces(SharedAddress at, u32 apart, const Pack<V, K>& values) {
    using P = Pieces<V, K>;
#pragma unroll
    for (int j = 0; j < P::COUNT; ++j) {
        typename P::Piece piece;
#pragma unroll
        for (int k = 0; k < P::EACH; ++k) piece.v[k] = values.v[j * P::EACH + k];
        write_shared(at + j * apart, piece);
    }
}

// What the ring holds for a step to come: r = b - (sum over far entries), near entries and their slots;
// all of it divided by the diagonal where that is safe.
template <class V, int K, int C>
struct alignas(16) RingStep {
    typename Pieces<V, K>::Piece value[Pieces<V, K>::COUNT][32];
    Slots<K> slots[32];
    typename Pieces<V, C>::Piece r[Pieces<V, C>::COUNT][32];
    u32 far[C == 1 ? 32 : 4]; // of records alone: which far entries of the step are the row's

    __device__ void set_value(int lane, const Pack<V, K>& of_row) { set(value, lane, of_row); }
    __device__ void set_r(int lane, const Pack<V, C>& of_row) { set(r, lane, of_row); }

private:
    template <class Piece, int COUNT, int N>
    __device__ static void set(Piece (&pieces)[COUNT][32], int lane, const Pack<V, N>& values) {
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            Piece piece;
#pragma unroll
            for (int k = 0; k < N / COUNT; ++k) piece.v[k] = values.v[j * (N / COUNT) + k];
            pieces[j][lane] = piece;
        }
    }
};

// What the warps of a block share, beside the ring of `mask` + 1 steps and the window.
struct Hall {
    Pack<u32, 2> place[MOST_STEPS]; // first position of the step, and how many there are
    u32 filled[MOST_STEPS];         // 1 + the step that the ring holds there, and DIVIDE
    u32 swept;                      // steps that are swept; gatherers that copy have flags instead:
    Flag freed[MOST_STEPS / 4];     // four steps are swept
    u32 ticket;
    u32 latest; // position of which blocks without a strip wait for the value

    // By all threads, before a barrier of the block; once more before each further strip.
    __device__ void make_flags(bool again) {
        if (threadIdx.x == 0) swept = 0;
        for (u32 k = threadIdx.x; k < MOST_STEPS; k += blockDim.x) {
            filled[k] = 0;
            if (k >= MOST_STEPS / 4) continue;
            if (again) unmake_flag(freed + k);
            make_flag(freed + k);
        }
    }
};
template <class V, int K, int C>
struct Ring {
    RingStep<V, K, C>* steps;
    u32 mask;

    __device__ u32 place(u32 q) const { return q & mask; }
    // Whether step q is a second, fourth, ... use of its place.
    __device__ bool odd(u32 q) const { return (q & (mask + 1)) != 0; }
};

// The latest values of a strip, and a zero for entries that are not.
template <class V, int C>
struct alignas(16) Window {
    typename Pieces<V, C>::Piece value[Pieces<V, C>::COUNT][WINDOW + 1];
};
constexpr u32 DIVIDE = 0x80000000u; // some rows of the step are still to be divided

// ---- gatherers: what comes from elsewhere -------------------------------------------------------
// Far entries of a row that are polled at once; -1 where there are no more.
template <class F, int FAR>
struct Batch {
    int position[FAR];
    F value[FAR];
};

// The positions of a step.
struct Extent {
    u32 start, end, n; // 2^n lanes a row
};
template <int K, class F>
__device__ Extent load_extent(const Strips<F>& T, u32 step, u32 last) {
    if (step >= last) return {0, 0, 0};
    return {u32(T.step_start[step]), u32(T.step_start[step + 1]),
            near_of_lane(K) < K ? u32(T.step_shares[step]) : 0u};
}

// The same, and which far entries are those of this lane's row.
struct StepRows {
    u32 start, rows, n;
    int begin, end;
    int row; // of b, or -1

    // s such that 2^s lanes can have a part of a row's far entries.
    __device__ int shares(int shares_far) const {
        return !shares_far || rows == 0 ? 0 : __clz(rows - 1 | 1) - 27;
    }
    // The same with this lane's part of the entries: of row lane >> s.
    __device__ StepRows shared_out(int s, int lane) const {
        const int row = lane >> s, part = lane & ((1 << s) - 1);
        const int of = __shfl_sync(FULL_WARP, begin, row), to = __shfl_sync(FULL_WARP, end, row);
        const int each = (to - of + (1 << s) - 1) >> s;
        return {start, rows, n, min(of + part * each, to), min(of + (part + 1) * each, to), -1};
    }
    // Those of all rows.
    __device__ int first() const { return __shfl_sync(FULL_WARP, begin, 0); }
    __device__ int last() const { return __shfl_sync(FULL_WARP, end, (rows - 1) & 31); }
};
template <class F, class V, int C>
__device__ StepRows load_ranges(const Strips<F>& T, Extent step, const Columns<V, C>& on,
                                int lane) {
    StepRows rows{step.start, step.end - step.start, step.n, 0, 0, -1};
    if (u32(lane) >= rows.rows) return rows;
    rows.row = on.from.row[step.start + lane];
    rows.begin = T.far_ptr[step.start + lane];
    rows.end = T.far_ptr[step.start + lane + 1];
    return rows;
}

// What else a turn needs of its rows, and the far entries that are waited for first.
template <class F, class V, int L, int FAR, int C>
struct Gathered {
    Batch<F, FAR> batch;
    Slots<L> slots; // of the lane's near entries
    Pack<F, L> near_value;
    F scale; // of the row of which the lane has near entries
    V s[C];  // b, of which terms are subtracted, one row a lane
};
template <bool UNIT, int K, class F, class V, int L, int FAR, int C>
__device__ void load_rows(const Strips<F>& T, const StepRows& step, const Columns<V, C>& on,
                          Gathered<F, V, L, FAR, C>& g, int lane) {
    static_assert(L == near_of_lane(K));
#pragma unroll
    for (int k = 0; k < L; ++k) g.near_value.v[k] = F(0);
#pragma unroll
    for (int k = 0; k < L / 2; ++k) g.slots.v[k] = WINDOW << 16 | WINDOW;
    g.scale = F(1);
#pragma unroll
    for (int c = 0; c < C; ++c) g.s[c] = V(0);
    if (step.row >= 0) {
        const V* const b = on.b + (C == 1 ? step.row : step.row * on.from.of_row);
#pragma unroll
        for (int c = 0; c < C; ++c)
            if (on.has(c)) g.s[c] = b[c];
    }
    const u32 row = u32(lane) >> step.n;
    if (row >= step.rows) return;
    const long long at = step.start + row, part = at * (K / L) + (lane & ((1 << step.n) - 1));
    g.slots = reinterpret_cast<const Slots<L>*>(T.near_slot)[part];
    g.near_value = reinterpret_cast<const Pack<F, L>*>(T.near_data)[part];
    if (!UNIT) g.scale = T.scale[at];
}

template <class F, int FAR>
__device__ void load_batch(const Strips<F>& T, int first, int end, Batch<F, FAR>& batch) {
#pragma unroll
    for (int e = 0; e < FAR; ++e) {
        const int p = first + e;
        batch.position[e] = p < end ? T.far_position[p] : -1;
        if (p < end) batch.value[e] = T.far_data[p];
    }
}

// Where the values of a batch are; bit e: entry e is there.
template <class F, class V, int FAR, int C>
__device__ u32 ask(const Batch<F, FAR>& batch, const Columns<V, C>& on,
                   const Pack<V, C>* (&slot)[FAR]) {
    u32 wanted = 0;
#pragma unroll
    for (int e = 0; e < FAR; ++e) {
        slot[e] = on.y + batch.position[e];
        if (batch.position[e] >= 0) wanted |= 1u << e;
    }
    return wanted;
}

// s -= sum over a batch.
template <class F, class V, int FAR, int C>
__device__ void subtract(const Batch<F, FAR>& batch, u32 wanted, const Pack<V, C> (&value)[FAR],
                         V (&s)[C]) {
#pragma unroll
    for (int e = 0; e < FAR; ++e)
#pragma unroll
        for (int c = 0; c < C; ++c)
            if (wanted >> e & 1u) s[c] = minus_product(s[c], V(batch.value[e]), value[e].v[c]);
}

// What each of the 2^n lanes of a row begins with: s of its row or, all but one, what changes no sum.
template <class V, int C>
__device__ void begin_shares(int n, const V (&s)[C], V (&sum)[C], int lane) {
    const bool first = (lane & ((1 << n) - 1)) == 0;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const V mine = n == 0 ? s[c] : shuffle(FULL_WARP, s[c], lane >> n, 32);
        sum[c] = first ? mine : minus_zero<V>();
    }
}

// From what the 2^n lanes of each row have to the sums of the rows, one a lane.
template <class V, int C>
__device__ void add_shares(int n, const V (&sum)[C], V (&s)[C], int lane) {
#pragma unroll
    for (int c = 0; c < C; ++c) s[c] = sum[c];
    if (n == 0) return;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        for (int o = 1; o < 1 << n; o *= 2) s[c] = plus(s[c], shuffle_xor(FULL_WARP, s[c], o));
        s[c] = shuffle(FULL_WARP, s[c], lane << n & 31, 32);
    }
}

// s -= sum over the far entries of a lane, of which `batch` has the first.
template <class F, class V, int FAR, int C>
__device__ void subtract_far(const Strips<F>& T, const StepRows& step, Batch<F, FAR>& batch,
                             const Columns<V, C>& on, V (&s)[C], Launch launch, Patience& patience,
                             int lane) {
    for (int first = step.begin; __any_sync(FULL_WARP, first < step.end); first += FAR) {
        const Pack<V, C>* slot[FAR];
        Pack<V, C> value[FAR];
        const u32 wanted = ask(batch, on, slot);
        // Where there may be many, the next batch is read while this one's values are waited for.
        Batch<F, FAR> after;
        const bool more = __any_sync(FULL_WARP, first + FAR < step.end);
        if (FAR > 2 && more) load_batch(T, first + FAR, step.end, after);
        await(slot, wanted, value, launch, patience, lane);
        subtract(batch, wanted, value, s);
        if (!more) return;
        if (FAR <= 2) load_batch(T, first + FAR, step.end, after);
        batch = after;
    }
}

// 1 / diagonal in the precision of x, or zero where only the division is safe.
template <class V, bool UNIT, class F>
__device__ V reciprocal(const Strips<F>& T, const StepRows& step, F scale, int lane) {
    const u32 of = u32(lane) >> step.n;
    if (UNIT || of >= step.rows) return V(1);
    if (sizeof(F) == sizeof(V) || is_zero(scale)) return V(scale);
    const int row = T.row[step.start + of];
    return row < 0 ? V(1) : over(V(1), V(T.diag[row]));
}

// Put step q into the ring, and tell.
template <bool UNIT, class F, class V, int L, int FAR, int C>
__device__ void fill(const Strips<F>& T, u32 q, const StepRows& rows, Gathered<F, V, L, FAR, C>& g,
                     Hall& hall, Ring<V, L, C> ring, int lane) {
    const u32 at = ring.place(q);
    RingStep<V, L, C>& step = ring.steps[at];
    V inverse = reciprocal<V, UNIT>(T, rows, g.scale, lane), s[C];
    const bool divide = !UNIT && __any_sync(FULL_WARP, is_zero(inverse));
    if (is_zero(inverse)) inverse = V(1);
    begin_shares(int(rows.n), g.s, s, lane);
    Pack<V, L> value;
#pragma unroll
    for (int k = 0; k < L; ++k)
        value.v[k] = UNIT ? V(g.near_value.v[k]) : times(V(g.near_value.v[k]), inverse);
    step.set_value(lane, value);
    step.slots[lane] = g.slots;
    Pack<V, C> r;
#pragma unroll
    for (int c = 0; c < C; ++c) r.v[c] = UNIT ? s[c] : times(s[c], inverse);
    step.set_r(lane, r);
    if (lane == 0) hall.place[at] = {rows.start, rows_and_shares(rows.rows, rows.n)};
    __syncwarp();
    if (lane == 0) store_release_shared(hall.filled + at, (q + 1) | (divide ? DIVIDE : 0u));
}

// Wait until the place of step q in the ring is free. False if the launch is abandoned.
template <class V, int K, int C>
__device__ bool await_place(u32 q, const Hall& hall, Ring<V, K, C> ring, Launch launch,
                            Patience& patience, int lane) {
    while (__any_sync(FULL_WARP, load_acquire_shared(&hall.swept) + ring.mask < q)) {
        if (patience.exhausted(launch, lane)) return false;
        __nanosleep(PAUSE_NS);
    }
    return true;
}

// Steps g, g + gatherers, ... of the `count` steps of a strip, of which `begin` is the first.
template <int FAR, bool UNIT, int K, class F, class V, int L, int C>
__device__ void gather(const Strips<F>& T, u32 count, u32 begin, u32 g, u32 gatherers,
                       const Columns<V, C>& on, Hall& hall, Ring<V, L, C> ring, Launch launch,
                       Patience& patience, int lane) {
    const u32 last = begin + count;
    Gathered<F, V, L, FAR, C> gathered;
    StepRows current = load_ranges(T, load_extent<K>(T, begin + g, last), on, lane);
    StepRows next = load_ranges(T, load_extent<K>(T, begin + g + gatherers, last), on, lane);
    Extent later = load_extent<K>(T, begin + g + 2 * gatherers, last);
    StepRows mine = current.shared_out(current.shares(T.shares_far), lane);
    load_batch(T, mine.begin, mine.end, gathered.batch);
    load_rows<UNIT, K>(T, current, on, gathered, lane);
    for (u32 q = g; q < count; q += gatherers) {
        const int n = current.shares(T.shares_far);
        V sum[C];
        begin_shares(n, gathered.s, sum, lane);
        subtract_far(T, mine, gathered.batch, on, sum, launch, patience, lane);
        add_shares(n, sum, gathered.s, lane);
        if (!await_place(q, hall, ring, launch, patience, lane)) return;
        fill<UNIT>(T, q, current, gathered, hall, ring, lane);
        // Only now: a poll would wait for all loads before it, and the sweeper for the filling.
        mine = next.shared_out(next.shares(T.shares_far), lane);
        load_batch(T, mine.begin, mine.end, gathered.batch);
        load_rows<UNIT, K>(T, next, on, gathered, lane);
        current = next;
        next = load_ranges(T, later, on, lane);
        later = load_extent<K>(T, begin + q + 3 * gatherers, last);
    }
}

} // namespace gpuilu
