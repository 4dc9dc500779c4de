// A strip of rows inside one block: the gatherers fetch what comes from elsewhere, the sweeper solves.
// blocked.cu has the kernels, and how the two are ordered.
#pragma once
#include "sync.cuh"

namespace gpuilu {

using u16 = unsigned short;

constexpr int WINDOW = 512;   // latest values of a strip that its block keeps in shared memory
constexpr int BATCH = 4;      // far entries a lane polls at once
constexpr u32 PAUSE_NS = 100; // between polls that nobody waits for
constexpr int SHARED = 48 * 1024;

// The triangle as `strips_solve` reads it, rows by position in the order in which they are solved. Strip
// t is steps step_ptr[t] .. step_ptr[t + 1]; step q is positions step_start[q] .. step_start[q + 1], 32 at
// most, of rows that do not depend on each other, one a lane. `row` is the row in x, or -1 for a
// segment of a long row: no b and a unit diagonal. A row's latest K dependencies in its own strip
// are `near`, as slots of the window (WINDOW: none); the others are `far`, as positions. `scale`
// is 1 / diagonal, or zero where only the division is safe; `diag` is in the order of x.
template <class F>
struct Strips {
    int n_strips;
    const int *step_ptr, *step_start, *row, *far_ptr, *far_position;
    const F* far_data;
    const u16* near_slot;
    const F *near_data, *scale, *diag;
};

// Columns c0 .. c0 + C of (n_positions, nrhs) arrays.
template <class V>
struct Columns {
    const V* b;
    V* y;
    int nrhs, c0;

    __device__ bool has(int c) const { return c0 + c < nrhs; }
    __device__ long long at(long long position, int c) const { return position * nrhs + c0 + c; }
};

// K values side by side, moved by few wide accesses.
template <class T, int K>
struct alignas(sizeof(T) * K < 16 ? sizeof(T) * K : 16) Pack {
    T v[K];
};

// Two 16-bit slots a word, unpacked only where they are used: sooner would be to wait for them. In the
// ring they are bytes from the window's begin.
template <int K>
using Slots = Pack<u32, K / 2>;
template <int K>
__device__ u32 slot_of(const Slots<K>& slots, int k) {
    return slots.v[k / 2] >> 16 * (k % 2) & 0xffffu;
}

// What the warps of a block share. The ring holds, for the steps to come, what a row needs from
// elsewhere: r = b - (sum over far entries), its near entries and their slots, all of it divided by
// the diagonal.
template <class V, int K, int C>
struct Hall {
    static constexpr int STEP = 32 * int(sizeof(V) * (K + C) + sizeof(Slots<K>) + 1);
    static constexpr int FREE = SHARED - int(sizeof(V)) * (WINDOW + 1) * C - 64;
    static constexpr u32 RING = FREE >= 32 * STEP ? 32 : FREE >= 16 * STEP ? 16 : 8;
    static constexpr u32 ADVANCE = 4; // after so many steps the sweeper tells where it is
    static_assert(WINDOW * sizeof(V) * C < 1 << 16, "16-bit offsets");
    Pack<V, K> value[RING * 32];
    Slots<K> slots[RING * 32];
    V r[RING * C * 32];
    V window[(WINDOW + 1) * C];
    Pack<u32, 2> place[RING]; // first position of the step, and how many there are
    u32 filled[RING];         // 1 + the step that the ring holds there, and DIVIDE
    u32 swept;                // steps that are swept
    u32 ticket;
};
constexpr u32 DIVIDE = 0x80000000u; // some rows of the step are still to be divided

// ---- gatherers: what comes from elsewhere -------------------------------------------------------
template <class F, int K>
struct Gathered {
    u32 start, rows; // of the step
    int begin, end;
    int position[BATCH];
    F value[BATCH];
    Slots<K> slots;
    Pack<F, K> near_value;
    F scale;
};

// Where a step begins and how many rows it has.
struct Extent {
    u32 start, end;
};
template <class F>
__device__ Extent load_extent(const Strips<F>& T, u32 step, u32 last) {
    if (step >= last) return {0, 0};
    return {u32(T.step_start[step]), u32(T.step_start[step + 1])};
}

template <class F, int K, bool UNIT>
__device__ void load_rows(const Strips<F>& T, Extent step, int lane, Gathered<F, K>& g) {
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

template <class F, int K>
__device__ void load_batch(const Strips<F>& T, int first, Gathered<F, K>& g) {
#pragma unroll
    for (int e = 0; e < BATCH; ++e) {
        const int p = first + e;
        g.position[e] = p < g.end ? T.far_position[p] : -1;
        if (p < g.end) g.value[e] = T.far_data[p];
    }
}

template <class F, class V, int K, int C>
__device__ void load_right(const Columns<V>& on, const Gathered<F, K>& g, int lane, V (&b)[C]) {
#pragma unroll
    for (int c = 0; c < C; ++c)
        b[c] = u32(lane) < g.rows && on.has(c) ? on.b[on.at(g.start + lane, c)] : V(0);
}

template <class F, class V, int K, int C>
__device__ void subtract_far(const Strips<F>& T, Gathered<F, K>& g, const Columns<V>& on, V (&s)[C],
                             Launch launch, Patience& patience, int lane) {
    int first = g.begin;
    while (__any_sync(FULL_WARP, first < g.end)) {
        const V* slot[BATCH * C];
        V value[BATCH * C];
        u32 wanted = 0;
#pragma unroll
        for (int e = 0; e < BATCH; ++e)
#pragma unroll
            for (int c = 0; c < C; ++c) {
                slot[e * C + c] = on.y + on.at(g.position[e], c);
                if (g.position[e] >= 0 && on.has(c)) wanted |= 1u << (e * C + c);
            }
        await(slot, wanted, value, launch, patience, lane);
#pragma unroll
        for (int e = 0; e < BATCH; ++e)
#pragma unroll
            for (int c = 0; c < C; ++c)
                if (wanted >> (e * C + c) & 1u)
                    s[c] = minus_product(s[c], V(g.value[e]), value[e * C + c]);
        first += BATCH;
        if (!__any_sync(FULL_WARP, first < g.end)) break;
        load_batch(T, first, g);
    }
}

// 1 / diagonal in the precision of x, or zero where only the division is safe.
template <class F, class V, int K, bool UNIT>
__device__ V reciprocal(const Strips<F>& T, const Gathered<F, K>& g, int lane) {
    if (UNIT || u32(lane) >= g.rows) return V(1);
    if (sizeof(F) == sizeof(V) || is_zero(g.scale)) return V(g.scale);
    const int row = T.row[g.start + lane];
    return row < 0 ? V(1) : over(V(1), V(T.diag[row]));
}

// Put step q into the ring.
template <class F, class V, int K, int C, bool UNIT>
__device__ void fill(const Strips<F>& T, u32 q, const Gathered<F, K>& g, V (&s)[C],
                     Hall<V, K, C>& hall, int lane) {
    const u32 at = q % Hall<V, K, C>::RING;
    V inverse = reciprocal<F, V, K, UNIT>(T, g, lane);
    const bool divide = !UNIT && __any_sync(FULL_WARP, is_zero(inverse));
    if (divide) inverse = V(1);
    Pack<V, K> value;
#pragma unroll
    for (int k = 0; k < K; ++k)
        value.v[k] = UNIT ? V(g.near_value.v[k]) : times(V(g.near_value.v[k]), inverse);
    hall.value[at * 32 + lane] = value;
    Slots<K> slots;
#pragma unroll
    for (int k = 0; k < K / 2; ++k) slots.v[k] = g.slots.v[k] * u32(sizeof(V) * C);
    hall.slots[at * 32 + lane] = slots;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        if (!UNIT) s[c] = times(s[c], inverse);
        hall.r[(at * C + c) * 32 + lane] = s[c];
    }
    if (lane == 0) hall.place[at] = {g.start, g.rows};
    __syncwarp();
    if (lane == 0) store_release_shared(hall.filled + at, (q + 1) | (divide ? DIVIDE : 0u));
}

// Steps g, g + gatherers, ... of the `count` steps of a strip, of which `begin` is the first.
template <class F, class V, int K, int C, bool UNIT>
__device__ void gather(const Strips<F>& T, u32 count, u32 begin, u32 g, u32 gatherers,
                       const Columns<V>& on, Hall<V, K, C>& hall, Launch launch, Patience& patience,
                       int lane) {
    const u32 last = begin + count;
    Gathered<F, K> current, next;
    V s[C], b[C];
    load_rows<F, K, UNIT>(T, load_extent(T, begin + g, last), lane, current);
    load_rows<F, K, UNIT>(T, load_extent(T, begin + g + gatherers, last), lane, next);
    Extent later = load_extent(T, begin + g + 2 * gatherers, last);
    load_batch(T, current.begin, current);
    load_right(on, current, lane, s);
    for (u32 q = g; q < count; q += gatherers) {
        Gathered<F, K> after;
        subtract_far(T, current, on, s, launch, patience, lane);
        while (__any_sync(FULL_WARP, load_acquire_shared(&hall.swept) + Hall<V, K, C>::RING <= q))
            if (patience.exhausted(launch, lane))
                return;
            else
                __nanosleep(PAUSE_NS);
        fill<F, V, K, C, UNIT>(T, q, current, s, hall, lane);
        // Only now: a poll would wait for all loads before it, and the sweeper for the filling.
        load_batch(T, next.begin, next);
        load_right(on, next, lane, b);
        load_rows<F, K, UNIT>(T, later, lane, after);
        later = load_extent(T, begin + q + 3 * gatherers, last);
        current = next;
        next = after;
#pragma unroll
        for (int c = 0; c < C; ++c) s[c] = b[c];
    }
}

// ---- the sweeper: x = r - sum over near entries -------------------------------------------------
// Where two steps side by side in the ring are in shared memory, for this lane.
template <class V, int K, int C>
struct Round {
    SharedAddress value, slots, r, place, filled;
};

// Where the ring is.
template <class V, int K, int C>
struct Places {
    Round<V, K, C> first;
    SharedAddress window;

    __device__ Places(const Hall<V, K, C>& hall, int lane)
        : first{kept(shared_address(hall.value + lane)), kept(shared_address(hall.slots + lane)),
                kept(shared_address(hall.r + lane)), kept(shared_address(hall.place)),
                kept(shared_address(hall.filled))},
          window(kept(shared_address(hall.window))) {}

    __device__ Round<V, K, C> at(u32 ring) const {
        return {first.value + ring * 32 * u32(sizeof(Pack<V, K>)),
                first.slots + ring * 32 * u32(sizeof(Slots<K>)),
                first.r + ring * 32 * u32(sizeof(V) * C), first.place + ring * 8,
                first.filled + ring * 4};
    }
};

template <class V, int K, int C>
struct Work {
    Pack<V, K> value;
    Slots<K> slots;
    Pack<u32, 2> place;
    V r[C];
};

// What the ring holds at place `at` of a round; anything if it does not hold that step yet.
template <class V, int K, int C>
__device__ void take(bool held, const Round<V, K, C>& round, u32 at, Work<V, K, C>& work) {
    const u32 first = at * 32;
    work.slots = read_shared_if<Slots<K>>(held, round.slots + first * u32(sizeof(Slots<K>)));
    work.value = read_shared_if<Pack<V, K>>(held, round.value + first * u32(sizeof(Pack<V, K>)));
    work.place = read_shared_if<Pack<u32, 2>>(held, round.place + at * 8);
#pragma unroll
    for (int c = 0; c < C; ++c)
        work.r[c] = read_shared_if<V>(held, round.r + (first * C + c * 32) * u32(sizeof(V)));
}

// What an abandoned launch leaves: NaN for all rows from step q of a strip on.
template <class F, class V, int K, int C>
__device__ void drain(const Strips<F>& T, u32 q, u32 count, u32 begin, const Columns<V>& on,
                      Hall<V, K, C>& hall, int lane) {
    const int end = T.step_start[begin + count];
    for (int position = T.step_start[begin + q] + lane; position < end; position += 32)
        for (int c = 0; c < C; ++c)
            if (on.has(c)) publish(on.y + on.at(position, c), not_a_number<V>());
    __syncwarp();
    if (lane == 0) store_release_shared(&hall.swept, count);
}

// s / diagonal of the row at a position. Out of the way of the loop that calls it.
template <class F, class V>
__noinline__ __device__ V divided(const int* row_at, const F* diag, u32 position, V s) {
    const int row = row_at[position];
    return row < 0 ? s : over(s, V(diag[row]));
}

// s / diagonal for the rows of a step that the gatherers could not scale.
template <class F, class V, int C>
__device__ void divide_step(const Strips<F>& T, u32 position, V (&s)[C]) {
    for (int c = 0; c < C; ++c) s[c] = divided(T.row, T.diag, position, s[c]);
}

// Where the sweeper of a strip is: in step q of `count`, some rows of which are to be divided if `divide`.
// `next` is the flag of the step behind it as it was last seen, `held` whether it told of that step.
struct Progress {
    u32 q, count, divide, next, held;
};

// Whether the ring holds step q.
__device__ inline bool holds(u32 filled, u32 q) {
    return !__any_sync(FULL_WARP, (filled & ~DIVIDE) != q + 1);
}

// The rows of a step, one a lane, and what came out.
template <class V, int C>
struct Solved {
    u32 position, has_row;
    V x[C];

    __device__ void remember(SharedAddress slot) const {
        if (has_row) {
#pragma unroll
            for (int c = 0; c < C; ++c) write_shared(slot + c * u32(sizeof(V)), x[c]);
        }
        __syncwarp();
    }

    __device__ void tell(const Columns<V>& on) const {
#pragma unroll
        for (int c = 0; c < C; ++c)
            publish_if(has_row && (C == 1 || on.has(c)), on.y + on.at(position, c), x[c]);
    }
};

// One step of rows, whose `work` was taken from the ring. False if it was the last, or the launch is
// abandoned. While the values come from the window, the step behind it is taken, from place AT of
// `behind`, the flag of the one after that is read, at place AFTER of `after`, and the results of
// the step before are told. If the step behind was not there when its flag was read, this one is told
// at once and the flag waited for; that it is told again does no harm.
template <int AT, int AFTER, class F, class V, int K, int C>
__device__ bool sweep_step(const Strips<F>& T, const Columns<V>& on, const Places<V, K, C>& places,
                           const Round<V, K, C>& behind, const Round<V, K, C>& after, Progress& at,
                           Solved<V, C>& solved, const Work<V, K, C>& work, Work<V, K, C>& next,
                           Launch launch, Patience& patience, int lane) {
    V x[K][C];
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
        for (int c = 0; c < C; ++c)
            x[k][c] =
                read_shared<V>(places.window + slot_of<K>(work.slots, k) + c * u32(sizeof(V)));
    take(at.held, behind, AT, next);
    const u32 seen = load_acquire_shared(after.filled + 4 * AFTER);
    solved.tell(on);
    solved.position = work.place.v[0] + lane;
    solved.has_row = u32(lane) < work.place.v[1];
    const SharedAddress slot =
        placed(places.window + solved.position % WINDOW * u32(sizeof(V) * C));
#pragma unroll
    for (int c = 0; c < C; ++c) {
        solved.x[c] = work.r[c];
#pragma unroll
        for (int k = K - 1; k >= 0; --k)
            solved.x[c] = minus_product(solved.x[c], work.value.v[k], x[k][c]);
    }
    const u32 held_after = holds(seen, at.q + 2);
    if (at.divide || !at.held) {
        if (at.divide && solved.has_row) divide_step(T, solved.position, solved.x);
        solved.remember(slot);
        solved.tell(on);
        if (!at.held) {
            if (at.q + 1 == at.count) return false;
            do {
                if (patience.exhausted(launch, lane)) return false;
                at.next = load_acquire_shared(behind.filled + 4 * AT);
            } while (!holds(at.next, at.q + 1));
            take(true, behind, AT, next);
        }
    }
    solved.remember(slot);
    at.held = held_after;
    at.divide = at.next & DIVIDE;
    at.next = seen;
    ++at.q;
    return true;
}

// The `count` steps of a strip, of which `begin` is the first; at least one.
template <class F, class V, int K, int C, bool UNIT>
__device__ void sweep(const Strips<F>& T, u32 count, u32 begin, const Columns<V>& on,
                      Hall<V, K, C>& hall, Launch launch, Patience& patience, int lane) {
    constexpr u32 RING = Hall<V, K, C>::RING;
    const Places<V, K, C> places(hall, lane);
    Round<V, K, C> here = places.first;
    Solved<V, C> solved;
    solved.position = solved.has_row = 0;
    Work<V, K, C> a, b;
    u32 filled;
    while (!holds(filled = load_acquire_shared(here.filled), 0))
        if (patience.exhausted(launch, lane)) return drain(T, 0, count, begin, on, hall, lane);
    Progress at{0, count, filled & DIVIDE, 0, 0};
    take(true, here, 0, a);
    while (true) {
        const Round<V, K, C> after = places.at((at.q + 2) % RING);
        if (!sweep_step<1, 0>(T, on, places, here, after, at, solved, a, b, launch, patience, lane))
            break;
        if (!sweep_step<0, 1>(T, on, places, after, after, at, solved, b, a, launch, patience,
                              lane))
            break;
        here = after;
        if (at.q % Hall<V, K, C>::ADVANCE != 0) continue;
        if (lane == 0) store_release_shared(&hall.swept, at.q);
        if (at.q % 256 == 0) note_progress(launch, lane);
    }
    if (at.q + 1 < count) return drain(T, at.q + 1, count, begin, on, hall, lane);
    if (lane == 0) store_release_shared(&hall.swept, count);
}

} // namespace gpuilu
