// A strip of rows inside one block: the gatherers fetch what comes from elsewhere, the sweeper
// (sweep.cuh) solves. blocked.cu has the kernels, and how the two are ordered.
#pragma once
#include "sync.cuh"

namespace gpuilu {

using u16 = unsigned short;

constexpr int WINDOW = 512;    // latest values of a strip that its block keeps in shared memory
constexpr u32 PAUSE_NS = 100;  // between polls that nobody waits for
constexpr u32 MOST_STEPS = 64; // in the ring

// The triangle as `strips_solve` reads it, rows by position in the order in which they are solved. Strip
// t is steps step_ptr[t] .. step_ptr[t + 1]; step q is positions step_start[q] .. step_start[q + 1], 32 at
// most, of rows that do not depend on each other, one a lane. `row` is the row in x, or -1 for a
// segment of a long row: no b and a unit diagonal. A row's latest K dependencies in its own strip
// are `near`, as slots of the window (WINDOW: none); the others are `far`, as positions. `scale`
// is 1 / diagonal, or zero where only the division is safe; `diag` is in the order of x. `info`,
// `records` (RingStep, with scale for r) and `far_entries` say the same for gatherers that copy
// (strips_copied.cuh).
struct StepInfo;
template <class F>
struct Strips {
    int n_strips;
    const int *step_ptr, *step_start, *row, *far_ptr, *far_position;
    const F* far_data;
    const u16* near_slot;
    const F *near_data, *scale, *diag;
    const StepInfo* info;
    const void *records, *far_entries;
};

// Columns c0 .. c0 + C of (n_positions, nrhs) arrays; with C = 1 there is only one.
template <class V, int C>
struct Columns {
    const V* b;
    V* y;
    int nrhs, c0;

    __device__ bool has(int c) const { return C == 1 || c0 + c < nrhs; }
    __device__ long long at(int position, int c) const {
        return C == 1 ? position : (long long)position * nrhs + c0 + c;
    }
};

// K values side by side, moved by few wide accesses.
template <class T, int K>
struct alignas(sizeof(T) * K < 16 ? sizeof(T) * K : 16) Pack {
    T v[K];
};

// Two 16-bit slots a word, unpacked only where they are used: sooner would be to wait for them.
template <int K>
using Slots = Pack<u32, K / 2>;
template <int K>
__device__ u32 slot_of(const Slots<K>& slots, int k) {
    return slots.v[k / 2] >> 16 * (k % 2) & 0xffffu;
}

// What the ring holds for a step to come: r = b - (sum over far entries), near entries and their slots;
// all of it divided by the diagonal where that is safe.
template <class V, int K, int C>
struct alignas(16) RingStep {
    Pack<V, K> value[32];
    Slots<K> slots[32];
    V r[C * 32];
    u32 far[C == 1 ? 32 : 4]; // of records alone: which far entries of the step are the row's
};

// What the warps of a block share, beside the ring of `mask` + 1 steps.
template <class V, int K, int C>
struct Hall {
    V window[(WINDOW + 1) * C];
    Pack<u32, 2> place[MOST_STEPS]; // first position of the step, and how many there are
    u32 filled[MOST_STEPS];         // 1 + the step that the ring holds there, and DIVIDE
    u32 swept;                      // steps that are swept; gatherers that copy have flags instead:
    Flag freed[MOST_STEPS / 4];     // four steps are swept
    u32 ticket;

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
constexpr u32 DIVIDE = 0x80000000u; // some rows of the step are still to be divided

// ---- gatherers: what comes from elsewhere -------------------------------------------------------
// Far entries of a row that are polled at once; -1 where there are no more.
template <class F, int FAR>
struct Batch {
    int position[FAR];
    F value[FAR];
};

template <class F, int K, int FAR>
struct Gathered {
    u32 start, rows; // of the step
    int begin, end;
    Batch<F, FAR> batch;
    Slots<K> slots;
    Pack<F, K> near_value;
    F scale;
};

// The positions of a step: from start to end.
struct Extent {
    u32 start, end;
};
template <class F>
__device__ Extent load_extent(const Strips<F>& T, u32 step, u32 last) {
    if (step >= last) return {0, 0};
    return {u32(T.step_start[step]), u32(T.step_start[step + 1])};
}

template <bool UNIT, class F, int K, int FAR>
__device__ void load_rows(const Strips<F>& T, Extent step, int lane, Gathered<F, K, FAR>& g) {
    g.start = step.start;
    g.rows = step.end - step.start;
    g.begin = g.end = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) g.near_value.v[k] = F(0);
#pragma unroll
    for (int k = 0; k < K / 2; ++k) g.slots.v[k] = WINDOW << 16 | WINDOW;
    g.scale = F(1);
    if (u32(lane) >= g.rows) return;
    const u32 at = g.start + lane;
    g.begin = T.far_ptr[at];
    g.end = T.far_ptr[at + 1];
    g.slots = reinterpret_cast<const Slots<K>*>(T.near_slot)[at];
    g.near_value = reinterpret_cast<const Pack<F, K>*>(T.near_data)[at];
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

template <class F, class V, int K, int FAR, int C>
__device__ void load_right(const Columns<V, C>& on, const Gathered<F, K, FAR>& g, int lane,
                           V (&b)[C]) {
#pragma unroll
    for (int c = 0; c < C; ++c)
        b[c] = u32(lane) < g.rows && on.has(c) ? on.b[on.at(g.start + lane, c)] : V(0);
}

// Where the values of a batch are; bit e * C + c: entry e is there, for column c.
template <class F, class V, int FAR, int C>
__device__ u32 ask(const Batch<F, FAR>& batch, const Columns<V, C>& on, const V* (&slot)[FAR * C]) {
    u32 wanted = 0;
#pragma unroll
    for (int e = 0; e < FAR; ++e)
#pragma unroll
        for (int c = 0; c < C; ++c) {
            slot[e * C + c] = on.y + on.at(batch.position[e], c);
            if (batch.position[e] >= 0 && on.has(c)) wanted |= 1u << (e * C + c);
        }
    return wanted;
}

// s -= sum over a batch.
template <class F, class V, int FAR, int C>
__device__ void subtract(const Batch<F, FAR>& batch, u32 wanted, const V (&value)[FAR * C],
                         V (&s)[C]) {
#pragma unroll
    for (int e = 0; e < FAR; ++e)
#pragma unroll
        for (int c = 0; c < C; ++c)
            if (wanted >> (e * C + c) & 1u)
                s[c] = minus_product(s[c], V(batch.value[e]), value[e * C + c]);
}

// s -= sum over the far entries of a row, of which g has the first batch.
template <class F, class V, int K, int FAR, int C>
__device__ void subtract_far(const Strips<F>& T, Gathered<F, K, FAR>& g, const Columns<V, C>& on,
                             V (&s)[C], Launch launch, Patience& patience, int lane) {
    for (int first = g.begin; __any_sync(FULL_WARP, first < g.end); first += FAR) {
        const V* slot[FAR * C];
        V value[FAR * C];
        const u32 wanted = ask(g.batch, on, slot);
        // Where there may be many, the next batch is read while this one's values are waited for.
        Batch<F, FAR> after;
        const bool more = __any_sync(FULL_WARP, first + FAR < g.end);
        if (FAR > 2 && more) load_batch(T, first + FAR, g.end, after);
        await(slot, wanted, value, launch, patience, lane);
        subtract(g.batch, wanted, value, s);
        if (!more) return;
        if (FAR <= 2) load_batch(T, first + FAR, g.end, after);
        g.batch = after;
    }
}

// 1 / diagonal in the precision of x, or zero where only the division is safe.
template <class V, bool UNIT, class F, int K, int FAR>
__device__ V reciprocal(const Strips<F>& T, const Gathered<F, K, FAR>& g, int lane) {
    if (UNIT || u32(lane) >= g.rows) return V(1);
    if (sizeof(F) == sizeof(V) || is_zero(g.scale)) return V(g.scale);
    const int row = T.row[g.start + lane];
    return row < 0 ? V(1) : over(V(1), V(T.diag[row]));
}

// s times the reciprocal diagonal of each row where that is safe; whether it is not for some row.
template <bool UNIT, class V, int C>
__device__ bool scale_rows(V& inverse, V (&s)[C]) {
    const bool divide = !UNIT && __any_sync(FULL_WARP, is_zero(inverse));
    if (is_zero(inverse)) inverse = V(1);
#pragma unroll
    for (int c = 0; c < C; ++c)
        if (!UNIT) s[c] = times(s[c], inverse);
    return divide;
}

// The last of step q into the ring, and tell.
template <class V, int K, int C>
__device__ void finish(u32 q, u32 start, u32 rows, bool divide, const V (&s)[C],
                       Hall<V, K, C>& hall, Ring<V, K, C> ring, int lane) {
    const u32 at = ring.place(q);
#pragma unroll
    for (int c = 0; c < C; ++c) ring.steps[at].r[c * 32 + lane] = s[c];
    if (lane == 0) hall.place[at] = {start, rows};
    __syncwarp();
    if (lane == 0) store_release_shared(hall.filled + at, (q + 1) | (divide ? DIVIDE : 0u));
}

// Put step q into the ring.
template <bool UNIT, class F, class V, int K, int FAR, int C>
__device__ void fill(const Strips<F>& T, u32 q, const Gathered<F, K, FAR>& g, V (&s)[C],
                     Hall<V, K, C>& hall, Ring<V, K, C> ring, int lane) {
    RingStep<V, K, C>& step = ring.steps[ring.place(q)];
    V inverse = reciprocal<V, UNIT>(T, g, lane);
    const bool divide = scale_rows<UNIT>(inverse, s);
    Pack<V, K> value;
#pragma unroll
    for (int k = 0; k < K; ++k)
        value.v[k] = UNIT ? V(g.near_value.v[k]) : times(V(g.near_value.v[k]), inverse);
    step.value[lane] = value;
    step.slots[lane] = g.slots;
    finish(q, g.start, g.rows, divide, s, hall, ring, lane);
}

// Wait until the place of step q in the ring is free. False if the launch is abandoned.
template <class V, int K, int C>
__device__ bool await_place(u32 q, const Hall<V, K, C>& hall, Ring<V, K, C> ring, Launch launch,
                            Patience& patience, int lane) {
    while (__any_sync(FULL_WARP, load_acquire_shared(&hall.swept) + ring.mask < q)) {
        if (patience.exhausted(launch, lane)) return false;
        __nanosleep(PAUSE_NS);
    }
    return true;
}

// Steps g, g + gatherers, ... of the `count` steps of a strip, of which `begin` is the first.
template <int FAR, bool UNIT, class F, class V, int K, int C>
__device__ void gather(const Strips<F>& T, u32 count, u32 begin, u32 g, u32 gatherers,
                       const Columns<V, C>& on, Hall<V, K, C>& hall, Ring<V, K, C> ring,
                       Launch launch, Patience& patience, int lane) {
    const u32 last = begin + count;
    Gathered<F, K, FAR> current, next;
    V s[C], b[C];
    load_rows<UNIT>(T, load_extent(T, begin + g, last), lane, current);
    load_rows<UNIT>(T, load_extent(T, begin + g + gatherers, last), lane, next);
    Extent later = load_extent(T, begin + g + 2 * gatherers, last);
    load_batch(T, current.begin, current.end, current.batch);
    load_right(on, current, lane, s);
    for (u32 q = g; q < count; q += gatherers) {
        Gathered<F, K, FAR> after;
        subtract_far(T, current, on, s, launch, patience, lane);
        if (!await_place(q, hall, ring, launch, patience, lane)) return;
        fill<UNIT>(T, q, current, s, hall, ring, lane);
        // Only now: a poll would wait for all loads before it, and the sweeper for the filling.
        load_batch(T, next.begin, next.end, next.batch);
        load_right(on, next, lane, b);
        load_rows<UNIT>(T, later, lane, after);
        later = load_extent(T, begin + q + 3 * gatherers, last);
        current = next;
        next = after;
#pragma unroll
        for (int c = 0; c < C; ++c) s[c] = b[c];
    }
}

} // namespace gpuilu
