// The sweeper of a strip: x = r - sum over near entries, 32 rows a step, by one warp. blocked.cu has the
// kernels, and how the sweeper and the gatherers (strips.cuh) are ordered.
#pragma once
#include "strips.cuh"

namespace gpuilu {

// Where four steps side by side in the ring are in shared memory, for this lane.
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
__device__ void drain(const Strips<F>& T, u32 q, u32 count, u32 begin, const Columns<V, C>& on,
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

// Bit l: the ring holds step q + l; some of its rows are to be divided.
struct Ahead {
    u32 held, divide;

    // Four steps from q on, and the one behind them, that need no looking.
    __device__ bool four() const { return (held & 0x1e) == 0x1e && !(divide & 0xf); }
};

// From each lane's flag; what one lane acquired all lanes may read.
__device__ inline Ahead look_ahead(u32 filled, u32 q, int lane) {
    const Ahead ahead{__ballot_sync(FULL_WARP, (filled & ~DIVIDE) == q + lane + 1),
                      __ballot_sync(FULL_WARP, filled >= DIVIDE)};
    __syncwarp();
    return ahead;
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

    __device__ void tell(const Columns<V, C>& on) const {
#pragma unroll
        for (int c = 0; c < C; ++c)
            publish_if(has_row && on.has(c), on.y + on.at(position, c), x[c]);
    }
};

// The values of the near entries of a row.
template <class V, int K, int C>
__device__ void read_window(const Places<V, K, C>& places, const Slots<K>& slots, V (&x)[K][C]) {
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
        for (int c = 0; c < C; ++c)
            x[k][c] = read_shared<V>(places.window + slot_of<K>(slots, k) + c * u32(sizeof(V)));
}

// x = r - sum over near entries; where the window keeps it.
template <class V, int K, int C>
__device__ SharedAddress substitute(const Places<V, K, C>& places, const Work<V, K, C>& work,
                                    const V (&x)[K][C], Solved<V, C>& solved, int lane) {
    solved.position = work.place.v[0] + lane;
    solved.has_row = u32(lane) < work.place.v[1];
#pragma unroll
    for (int c = 0; c < C; ++c) {
        solved.x[c] = work.r[c];
#pragma unroll
        for (int k = K - 1; k >= 0; --k)
            solved.x[c] = minus_product(solved.x[c], work.value.v[k], x[k][c]);
    }
    return places.window + solved.position % WINDOW * u32(sizeof(V) * C);
}

// One step of rows, whose `work` was taken from the ring, when the ring holds the step behind it, at
// place AT of `behind`, and nothing is to be divided. While the values come from the window, the
// step behind is taken and the results of the step before are told.
template <int AT, class V, int K, int C>
__device__ void sweep_on(const Columns<V, C>& on, const Places<V, K, C>& places,
                         const Round<V, K, C>& behind, Solved<V, C>& solved,
                         const Work<V, K, C>& work, Work<V, K, C>& next, int lane) {
    V x[K][C];
    read_window(places, work.slots, x);
    take(true, behind, AT, next);
    solved.tell(on);
    solved.remember(substitute(places, work, x, solved, lane));
}

// The same when that is not known. False if it was the last step, or the launch is abandoned. The flag
// of the step after the one behind is read as well, at place AFTER of `after`. If the step behind was
// not there when its flag was read, this one is told at once and the flag waited for; that it is
// told again does no harm.
template <int AT, int AFTER, class F, class V, int K, int C>
__device__ bool sweep_step(const Strips<F>& T, const Columns<V, C>& on,
                           const Places<V, K, C>& places, const Round<V, K, C>& behind,
                           const Round<V, K, C>& after, Progress& at, Solved<V, C>& solved,
                           const Work<V, K, C>& work, Work<V, K, C>& next, Launch launch,
                           Patience& patience, int lane) {
    V x[K][C];
    read_window(places, work.slots, x);
    take(at.held, behind, AT, next);
    const u32 seen = load_acquire_shared(after.filled + 4 * AFTER);
    solved.tell(on);
    const SharedAddress slot = substitute(places, work, x, solved, lane);
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

// The `count` steps of a strip, of which `begin` is the first; at least one. By fours where the ring
// holds them, so that nothing is asked in between; else step by step, as soon as one is there.
template <class F, class V, int K, int C, bool UNIT>
__device__ void sweep(const Strips<F>& T, u32 count, u32 begin, const Columns<V, C>& on,
                      Hall<V, K, C>& hall, Launch launch, Patience& patience, int lane) {
    constexpr u32 RING = Hall<V, K, C>::RING;
    static_assert(RING % 4 == 0);
    const Places<V, K, C> places(hall, lane);
    Solved<V, C> solved;
    solved.position = solved.has_row = 0;
    Work<V, K, C> a, b;
    u32 filled;
    while (!holds(filled = load_acquire_shared(places.first.filled), 0))
        if (patience.exhausted(launch, lane)) return drain(T, 0, count, begin, on, hall, lane);
    Progress at{0, count, 0, 0, 0};
    Round<V, K, C> here = places.first;
    take(true, here, 0, a);
    Ahead ahead{0, filled >= DIVIDE};
    while (true) {
        const Round<V, K, C> after = places.at((at.q + 4) % RING);
        const SharedAddress flag = places.first.filled + (at.q + 4 + lane) % RING * 4;
        if (ahead.four()) {
            sweep_on<1>(on, places, here, solved, a, b, lane);
            filled = load_acquire_shared(flag);
            sweep_on<2>(on, places, here, solved, b, a, lane);
            ahead = look_ahead(filled, at.q + 4, lane);
            sweep_on<3>(on, places, here, solved, a, b, lane);
            sweep_on<0>(on, places, after, solved, b, a, lane);
            at.q += 4;
        } else {
            at.divide = ahead.divide & 1u;
            at.held = ahead.held >> 1 & 1u;
            at.next = ahead.divide & 2u ? DIVIDE : 0u;
            if (!sweep_step<1, 2>(T, on, places, here, here, at, solved, a, b, launch, patience,
                                  lane) ||
                !sweep_step<2, 3>(T, on, places, here, here, at, solved, b, a, launch, patience,
                                  lane) ||
                !sweep_step<3, 0>(T, on, places, here, after, at, solved, a, b, launch, patience,
                                  lane) ||
                !sweep_step<0, 1>(T, on, places, after, after, at, solved, b, a, launch, patience,
                                  lane))
                break;
            ahead = look_ahead(load_acquire_shared(flag), at.q, lane);
        }
        here = after;
        if (lane == 0) store_release_shared(&hall.swept, at.q);
        if (at.q % 256 == 0) note_progress(launch, lane);
    }
    if (at.q + 1 < count) return drain(T, at.q + 1, count, begin, on, hall, lane);
    if (lane == 0) store_release_shared(&hall.swept, count);
}

} // namespace gpuilu
