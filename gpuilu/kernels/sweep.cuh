// The sweeper of a strip: x = r - sum over near entries, 32 rows a step, by one warp. blocked.cu has the
// kernels, and how the sweeper and the gatherers (strips.cuh) are ordered.
#pragma once
#include "strips.cuh"

namespace gpuilu {

constexpr int POLLS = 32; // of the flags of the next four steps, before they are swept one by one

// Where four steps side by side in the ring are in shared memory, for this lane.
template <class V, int K, int C>
struct Round {
    SharedAddress step, place;
};

// Where the ring is, and how gatherers are told: by flags if they copy.
template <class V, int K, int C, bool COPIES>
struct Places {
    Round<V, K, C> first;
    SharedAddress filled, swept, freed, window;
    Ring<V, K, C> ring;

    __device__ Places(const Hall& hall, const Window<V, C>& window, Ring<V, K, C> ring)
        : first{kept(shared_address(ring.steps)), kept(shared_address(hall.place))},
          filled(kept(shared_address(hall.filled))), swept(kept(shared_address(&hall.swept))),
          freed(kept(shared_address(hall.freed))), window(kept(shared_address(&window))),
          ring{ring.steps, kept(ring.mask)} {}

    // Of the round that begins with step q, a multiple of four.
    __device__ Round<V, K, C> round(u32 q) const {
        const u32 at = ring.place(q);
        return {first.step + at * u32(sizeof(RingStep<V, K, C>)), first.place + at * 8};
    }
    __device__ SharedAddress flag(u32 q) const { return filled + ring.place(q) * 4; }
    // Four steps up to q are swept: their places are free.
    __device__ void free_four(u32 q) const {
        if constexpr (COPIES)
            raise_flag(freed + ring.place(q - 4) / 4 * u32(sizeof(Flag)));
        else
            store_release_shared(swept, q);
    }
};

template <class V, int K, int C>
struct Work {
    Pack<V, K> value;
    Slots<K> slots;
    Pack<u32, 2> place;
    Pack<V, C> r;
};

// What the ring holds at place `at` of a round; anything if it does not hold that step yet.
template <class V, int K, int C>
__device__ void take(bool held, const Round<V, K, C>& round, u32 at, Work<V, K, C>& work,
                     int lane) {
    using Step = RingStep<V, K, C>;
    constexpr u32 SLOTS = u32(sizeof(Step::value)), R = SLOTS + u32(sizeof(Step::slots));
    const SharedAddress step = round.step + at * u32(sizeof(Step));
    work.slots = read_shared_if<Slots<K>>(held, step + SLOTS + lane * u32(sizeof(Slots<K>)));
    constexpr u32 NEAR = Pieces<V, K>::BYTES, EACH = Pieces<V, C>::BYTES;
    work.value = read_pieces<V, K>(held, step + lane * NEAR, 32 * NEAR);
    work.place = read_shared_if<Pack<u32, 2>>(held, round.place + at * 8);
    work.r = read_pieces<V, C>(held, step + R + lane * EACH, 32 * EACH);
}

// What an abandoned launch leaves: NaN for all rows from step q of a strip on.
template <class F, class V, int C>
__device__ void drain(const Strips<F>& T, u32 q, u32 count, u32 begin, const Columns<V, C>& on,
                      int lane) {
    const int end = T.step_start[begin + count];
    for (int position = T.step_start[begin + q] + lane; position < end; position += 32)
        publish(on.y + position, not_a_number<Pack<V, C>>());
}

// s / diagonal of the row at a position. Out of the way of the loop that calls it.
template <class F, class V>
__noinline__ __device__ V divided(const int* row_at, const F* diag, u32 position, V s) {
    const int row = row_at[position];
    return row < 0 ? s : over(s, V(diag[row]));
}

// s / diagonal for those rows of a step that could not be scaled.
template <class F, class V, int C>
__device__ void divide_step(const Strips<F>& T, u32 position, Pack<V, C>& s) {
    if (!is_zero(T.scale[position])) return;
    for (int c = 0; c < C; ++c) s.v[c] = divided(T.row, T.diag, position, s.v[c]);
}

// Bit l of `held`: the ring holds step q + l; of `divide`: some of its rows are to be divided.
struct Ahead {
    u32 held, divide;

    __device__ bool holds(int l) const { return held >> l & 1u; }
    __device__ bool divides(int l) const { return divide >> l & 1u; }
    // STEPS steps from q on, and the one behind them, that need no looking.
    template <int STEPS>
    __device__ bool holds_all() const {
        constexpr u32 MASK = (1u << STEPS) - 1;
        return (held >> 1 & MASK) == MASK && !(divide & MASK);
    }
    __device__ bool four() const { return holds_all<4>(); }
    __device__ Ahead from(int l) const { return {held >> l, divide >> l}; }
};

// From each lane's flag, that of step q + lane; what one lane acquired all lanes may read.
__device__ inline Ahead look_ahead(u32 filled, u32 q, int lane) {
    const Ahead ahead{__ballot_sync(FULL_WARP, (filled & ~DIVIDE) == q + lane + 1),
                      __ballot_sync(FULL_WARP, filled >= DIVIDE)};
    __syncwarp();
    return ahead;
}

// From one piece of a value in the window to the next.
template <class V, int C>
constexpr u32 WINDOW_PIECE = (WINDOW + 1) * Pieces<V, C>::BYTES;

// The rows of a step, one a lane, and what came out.
template <class V, int C>
struct Solved {
    u32 position, has_row;
    Pack<V, C> x;

    __device__ void remember(SharedAddress slot) const {
        if (has_row) write_pieces(slot, WINDOW_PIECE<V, C>, x);
        __syncwarp();
    }

    __device__ void tell(const Columns<V, C>& on) const {
        publish_if(has_row != 0, on.y + position, x);
    }
};

// The values of the near entries of a lane.
template <class V, int K, int C, bool COPIES>
__device__ void read_window(const Places<V, K, C, COPIES>& places, const Slots<K>& slots,
                            Pack<V, C> (&x)[K]) {
#pragma unroll
    for (int k = 0; k < K; ++k)
        x[k] = read_pieces<V, C>(true, places.window + slot_of<K>(slots, k) * Pieces<V, C>::BYTES,
                                 WINDOW_PIECE<V, C>);
}

// s -= sum over near entries, of four or more in two sums at once: a single one is a chain of operations, each of
// which waits for the one before.
template <class V, int K, int C>
__device__ void subtract_near(const Pack<V, K>& value, const Pack<V, C> (&x)[K], int c, V& s) {
    if constexpr (K < 4) {
#pragma unroll
        for (int k = K - 1; k >= 0; --k) s = minus_product(s, value.v[k], x[k].v[c]);
    } else {
        V other = minus_zero<V>();
#pragma unroll
        for (int k = K - 1; k > 0; k -= 2) {
            other = minus_product(other, value.v[k], x[k].v[c]);
            s = minus_product(s, value.v[k - 1], x[k - 1].v[c]);
        }
        s = plus(s, other);
    }
}

// x = r - sum over near entries; where the window keeps it. The 2^n lanes of a row add up what they have,
// and its first has the row.
template <bool SHARES, class V, int K, int C, bool COPIES>
__device__ SharedAddress substitute(const Places<V, K, C, COPIES>& places,
                                    const Work<V, K, C>& work, const Pack<V, C> (&x)[K],
                                    Solved<V, C>& solved, int lane) {
    const u32 n = SHARES ? shares_of(work.place.v[1]) : 0u;
    const u32 rows = SHARES ? rows_of(work.place.v[1]) : work.place.v[1];
    solved.position = work.place.v[0] + (u32(lane) >> n);
    solved.has_row = u32(lane) >> n < rows && (!SHARES || (u32(lane) & ((1u << n) - 1u)) == 0);
#pragma unroll
    for (int c = 0; c < C; ++c) {
        V& s = solved.x.v[c];
        s = work.r.v[c];
        subtract_near(work.value, x, c, s);
        if (SHARES)
            for (u32 o = 1; o < 1u << n; o *= 2) s = plus(s, shuffle_xor(FULL_WARP, s, int(o)));
    }
    return places.window + solved.position % WINDOW * Pieces<V, C>::BYTES;
}

// Where the sweeper of a strip is: in step q, a multiple of four, whose work was taken from the ring; what
// came out of the one before is still to be told.
template <class V, int K, int C>
struct Sweep {
    u32 q;
    Ahead ahead;
    Work<V, K, C> work;
    Solved<V, C> solved;
};

// Step q + L, when the ring holds the step behind it and nothing is to be divided. While the values x come
// from the window, the step behind is taken and the results of the step before are told. With LOOK
// the flags are read as well.
template <int L, bool LOOK, bool SHARES, class V, int K, int C, bool COPIES>
__device__ __forceinline__ void
sweep_on(const Columns<V, C>& on, const Places<V, K, C, COPIES>& places,
         const Round<V, K, C>& behind, SharedAddress flag, Solved<V, C>& solved,
         const Work<V, K, C>& work, const Pack<V, C> (&x)[K], Work<V, K, C>& next, u32& filled,
         int lane) {
    solved.tell(on);
    if (LOOK)
        filled = load_acquire_shared(flag); // which waits, but hardly longer than for the window
    take(true, behind, (L + 1) % 4, next, lane);
    solved.remember(substitute<SHARES>(places, work, x, solved, lane));
}

// Four steps that the ring holds, and the one behind. The values x of the first were asked for, those of the one behind
// are at the end: there, so that what follows costs no time.
template <bool LOOK, bool SHARES, class V, int K, int C, bool COPIES>
__device__ __forceinline__ void
sweep_four(const Columns<V, C>& on, const Places<V, K, C, COPIES>& places,
           const Round<V, K, C>& here, const Round<V, K, C>& after, SharedAddress flag,
           Sweep<V, K, C>& at, Pack<V, C> (&x)[K], u32& filled, int lane) {
    Work<V, K, C> other;
    sweep_on<0, false, SHARES>(on, places, here, flag, at.solved, at.work, x, other, filled, lane);
    read_window(places, other.slots, x);
    sweep_on<1, LOOK, SHARES>(on, places, here, flag, at.solved, other, x, at.work, filled, lane);
    read_window(places, at.work.slots, x);
    sweep_on<2, false, SHARES>(on, places, here, flag, at.solved, at.work, x, other, filled, lane);
    read_window(places, other.slots, x);
    sweep_on<3, false, SHARES>(on, places, after, flag, at.solved, other, x, at.work, filled, lane);
    read_window(places, at.work.slots, x);
    at.q += 4;
    if (lane == 0) places.free_four(at.q);
}

// Steps by fours, FOURS of these at a time, as long as the ring holds them and the one behind.
template <int FOURS, bool SHARES, class V, int K, int C, bool COPIES>
__device__ __forceinline__ void sweep_fours(const Columns<V, C>& on,
                                            const Places<V, K, C, COPIES>& places,
                                            Sweep<V, K, C>& at, Launch launch, int lane) {
    if (!at.ahead.template holds_all<4 * FOURS>()) return;
    Round<V, K, C> here = places.round(at.q);
    Pack<V, C> x[K];
    u32 filled;
    read_window(places, at.work.slots, x);
#pragma unroll(COPIES ? 4 / FOURS : 1) // the end of a loop costs some forty cycles
    while (at.ahead.template holds_all<4 * FOURS>()) {
        const SharedAddress flag = places.flag(at.q + 4 * FOURS + lane);
#pragma unroll
        for (int f = 1; f < FOURS; ++f) {
            const Round<V, K, C> after = places.round(at.q + 4);
            sweep_four<false, SHARES>(on, places, here, after, flag, at, x, filled, lane);
            here = after;
        }
        const Round<V, K, C> after = places.round(at.q + 4);
        sweep_four<true, SHARES>(on, places, here, after, flag, at, x, filled, lane);
        here = after;
        at.ahead = look_ahead(filled, at.q, lane);
        note_progress_if(at.q % 256 < 4 * FOURS, at.solved.position, launch, lane);
    }
}

// Wait a little for four steps and the one behind: they are worth it. The next may wait for what others
// have from us, so they are told before, and wait for steps of this strip itself, so not for long.
template <class V, int K, int C, bool COPIES>
__device__ bool await_four(const Places<V, K, C, COPIES>& places, u32 count,
                           const Columns<V, C>& on, Sweep<V, K, C>& at, int lane) {
    if (at.q + 5 > count) return false;
    at.solved.tell(on);
#pragma unroll 1
    for (int poll = 0; poll < POLLS && !at.ahead.four(); ++poll)
        at.ahead = look_ahead(load_acquire_shared(places.flag(at.q + lane)), at.q, lane);
    return at.ahead.four();
}

// Step q + L, when it is not known whether the ring holds the step behind it. If it does not, this one is
// told at once and the step behind waited for; that it is told again does no harm. False after the last
// step, or if the launch is abandoned. Where it turns out to be known from an earlier look, the look ahead is left to the
// last of four; not for gatherers that copy, with which that is slower.
template <int L, bool SHARES, class F, class V, int K, int C, bool COPIES>
__device__ bool sweep_one(const Strips<F>& T, u32 count, const Columns<V, C>& on,
                          const Places<V, K, C, COPIES>& places, const Round<V, K, C>& behind,
                          Sweep<V, K, C>& at, const Work<V, K, C>& work, Work<V, K, C>& next,
                          Launch launch, Patience& patience, int lane) {
    if constexpr (!COPIES && !SHARES && C == 1 && L < 3)
        if (at.ahead.holds(L + 1) && !at.ahead.divides(L)) {
            Pack<V, C> x[K];
            u32 none;
            read_window(places, work.slots, x);
            sweep_on<L, false, SHARES>(on, places, behind, 0, at.solved, work, x, next, none, lane);
            return true;
        }
    Pack<V, C> x[K];
    const SharedAddress flag = places.flag(at.q + lane);
    read_window(places, work.slots, x);
    take(at.ahead.holds(L + 1), behind, (L + 1) % 4, next, lane);
    at.solved.tell(on);
    const u32 filled = load_acquire_shared(flag);
    const SharedAddress slot = substitute<SHARES>(places, work, x, at.solved, lane);
    if (at.ahead.divides(L) && at.solved.has_row) divide_step(T, at.solved.position, at.solved.x);
    at.solved.remember(slot);
    const bool held = at.ahead.holds(L + 1);
    at.ahead = look_ahead(filled, at.q, lane);
    if (held) return true;
    at.solved.tell(on);
    if (at.q + L + 1 == count) return false;
    while (!at.ahead.holds(L + 1)) {
        if (patience.exhausted(launch, lane)) return false;
        at.ahead = look_ahead(load_acquire_shared(flag), at.q, lane);
    }
    take(true, behind, (L + 1) % 4, next, lane);
    return true;
}

// Four steps, each as soon as it is there. False if that was all.
template <bool SHARES, class F, class V, int K, int C, bool COPIES>
__device__ __forceinline__ bool sweep_singly(const Strips<F>& T, u32 count, const Columns<V, C>& on,
                                             const Places<V, K, C, COPIES>& places,
                                             Sweep<V, K, C>& at, Launch launch, Patience& patience,
                                             int lane) {
    const Round<V, K, C> here = places.round(at.q), after = places.round(at.q + 4);
    Work<V, K, C> other;
    u32 done = 0;
    const bool more = sweep_one<0, SHARES>(T, count, on, places, here, at, at.work, other, launch,
                                           patience, lane) &&
                      (++done, sweep_one<1, SHARES>(T, count, on, places, here, at, other, at.work,
                                                    launch, patience, lane)) &&
                      (++done, sweep_one<2, SHARES>(T, count, on, places, here, at, at.work, other,
                                                    launch, patience, lane)) &&
                      (++done, sweep_one<3, SHARES>(T, count, on, places, after, at, other, at.work,
                                                    launch, patience, lane));
    at.q += more ? 4 : done;
    at.ahead = at.ahead.from(4);
    if (more && lane == 0) places.free_four(at.q);
    note_progress_if(at.q % 256 == 0, at.solved.position, launch, lane);
    return more;
}

// The same out of the way of the loop over fours, which is twice as fast if the compiler sees it alone.
template <bool SHARES, class F, class V, int K, int C, bool COPIES>
__noinline__ __device__ bool
sweep_singly_apart(const Strips<F>& T, u32 count, const Columns<V, C>& on,
                   const Places<V, K, C, COPIES>& places, Sweep<V, K, C>& memory, Launch launch,
                   Patience& patience, int lane) {
    Sweep<V, K, C> at = memory;
    Patience left = patience;
    const bool more = sweep_singly<SHARES>(T, count, on, places, at, launch, left, lane);
    memory = at;
    patience = left;
    return more;
}

// The `count` steps of a strip, of which `begin` is the first; at least one. By fours, whose places in the
// ring lie side by side: at once where the ring holds them, else one by one.
template <bool SHARES, class F, class V, int K, int C, bool COPIES>
__device__ void sweep(const Strips<F>& T, u32 count, u32 begin, const Columns<V, C>& on,
                      const Hall& hall, const Window<V, C>& window, Ring<V, K, C> ring,
                      Launch launch, Patience& patience, int lane) {
    const Places<V, K, C, COPIES> places(hall, window, ring);
    Sweep<V, K, C> at{};
    while (!at.ahead.holds(0)) {
        at.ahead = look_ahead(load_acquire_shared(places.flag(lane)), 0, lane);
        if (!at.ahead.holds(0) && patience.exhausted(launch, lane))
            return drain(T, 0, count, begin, on, lane);
    }
    take(true, places.first, 0, at.work, lane);
    for (bool more = true; more;) {
        if constexpr (COPIES || C > 1) {
            do {
                if constexpr (COPIES) sweep_fours<2, SHARES>(on, places, at, launch, lane);
                sweep_fours<1, SHARES>(on, places, at, launch, lane);
            } while (await_four(places, count, on, at, lane));
            Sweep<V, K, C> memory = at;
            Patience left = patience;
            more = sweep_singly_apart<SHARES>(T, count, on, places, memory, launch, left, lane);
            at = memory;
            patience = left;
        } else {
            sweep_fours<1, SHARES>(on, places, at, launch, lane);
            more = sweep_singly<SHARES>(T, count, on, places, at, launch, patience, lane);
        }
    }
    if (at.q + 1 < count) drain(T, at.q + 1, count, begin, on, lane);
}

} // namespace gpuilu
