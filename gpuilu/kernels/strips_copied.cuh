// Gatherers of a strip whose static data reach shared memory past the registers: a record for each step
// straight into the ring, b and the far entries into a stage for each gatherer. What limits gatherers is
// the number of their instructions, five warps sharing a quarter of a multiprocessor: hence addresses
// in shared memory that are kept, and as few and as wide copies as there can be.
#pragma once
#include "strips.cuh"

namespace gpuilu {

// What stands for the number of far entries polled at once where static data are copied.
constexpr int COPIED = 3;

// A step: its first position and how many there are, its first far entry and how many there are, and
// DIVIDE. Of its far entries `far` of its record tells each row's: from the lower to the upper 16 bits.
struct alignas(16) StepInfo {
    u32 start, rows, far, n_far;
};

template <class V>
struct alignas(16) FarEntry {
    V value;
    int position;
};

template <class V, int K>
using Record = RingStep<V, K, 1>;

// What is under way to one gatherer, by turn. What a turn needs is copied at the end of the turn AHEAD before it, and
// read in the one just before it: a whole turn between hides the way from memory. Where all that is, is copied as many
// turns before that. All lanes read what others copied.
constexpr int AHEAD = 3;
// Far entries of a step: blocked.py copies only where no step has more.
constexpr int MOST_STAGED = 64;
template <class V>
struct alignas(16) Stage {
    V b[4][32];
    FarEntry<V> far[4][MOST_STAGED];
    StepInfo info[8];
    static_assert(AHEAD >= 2 && AHEAD < 4 && 2 * AHEAD < 8 && sizeof(FarEntry<V>) == 16);
};

// Where a gatherer finds and puts what, for this lane where each has its own.
template <class V, int K>
struct Desk {
    SharedAddress steps, place, filled, freed, b, far, info;
    Ring<V, K, 1> ring;
    u32 lane;

    __device__ Desk(const Hall& hall, Ring<V, K, 1> ring, const Stage<V>& stage, int lane)
        : steps(kept(shared_address(ring.steps))), place(kept(shared_address(hall.place))),
          filled(kept(shared_address(hall.filled))), freed(kept(shared_address(hall.freed))),
          b(kept(shared_address(stage.b[0]) + lane * u32(sizeof(V)))),
          far(kept(shared_address(stage.far[0]))), info(kept(shared_address(stage.info))),
          ring{ring.steps, kept(ring.mask)}, lane(lane) {}

    __device__ SharedAddress record(u32 q) const {
        return steps + ring.place(q) * u32(sizeof(Record<V, K>));
    }
    __device__ SharedAddress b_of(u32 turn) const { return b + (turn & 3) * u32(32 * sizeof(V)); }
    __device__ SharedAddress far_of(u32 turn) const {
        return far + (turn & 3) * (MOST_STAGED * 16);
    }
    __device__ SharedAddress info_of(u32 turn) const { return info + (turn & 7) * 16; }
};

// Wait until the place of step q in the ring is free. False if the launch is abandoned. The flag tells a
// use of a place from the one before, not from that before it; but the warp has waited for the place of
// its step before, which is no more steps back than the ring has: the use before the last is over.
template <class V, int K>
__device__ bool await_place(u32 q, const Desk<V, K>& desk, Launch launch, Patience& patience) {
    if (q <= desk.ring.mask) return true;
    const SharedAddress flag = desk.freed + desk.ring.place(q) / 4 * u32(sizeof(Flag));
    while (!__all_sync(FULL_WARP, flag_raised(flag, !desk.ring.odd(q)))) {
        if (patience.exhausted(launch, int(desk.lane))) return false;
        __nanosleep(PAUSE_NS);
    }
    return true;
}

// Issue what a turn is to find, whose place in the ring is free. `from` is the step's record.
template <class V, int K>
__device__ void copy_step(const Desk<V, K>& desk, const char* from, u32 q, u32 turn, const V* b,
                          const FarEntry<V>* entries) {
    constexpr int BYTES = sizeof(Record<V, K>), ROUND = 16 * 32;
    const u32 lane = desk.lane;
    const SharedAddress to = desk.record(q) + 16 * lane;
    from += 16 * lane;
#pragma unroll
    for (int at = 0; at < BYTES; at += ROUND)
        if (at + ROUND <= BYTES || at + 16 * int(lane) < BYTES) copy_async<16>(to + at, from + at);
    const StepInfo info = read_shared<StepInfo>(desk.info_of(turn));
    if (lane < info.rows) copy_async<int(sizeof(V))>(desk.b_of(turn), b + info.start + lane);
    static_assert(MOST_STAGED == 64);
    const u32 n_far = info.n_far & ~DIVIDE;
    const SharedAddress far = desk.far_of(turn) + 16 * lane;
    if (lane < n_far) copy_async<16>(far, entries + info.far + lane);
    if (lane + 32 < n_far) copy_async<16>(far + 16 * 32, entries + info.far + lane + 32);
}

// Far entries of a row, AT_ONCE of those from `first` to `end` of a stage, whose values are asked for.
template <int AT_ONCE, class V>
struct Far {
    u32 first, end, wanted;
    V factor[AT_ONCE];
    const V* slot[AT_ONCE];
    Asked<AT_ONCE, V> asked;

    __device__ void ask(SharedAddress stage, const Columns<V, 1>& on) {
        wanted = 0;
#pragma unroll
        for (int e = 0; e < AT_ONCE; ++e) {
            const bool in = first + e < end;
            const auto entry = read_shared<FarEntry<V>>(stage + (in ? first + e : 0) * 16);
            factor[e] = entry.value;
            slot[e] = on.y[entry.position].v;
            wanted |= in ? 1u << e : 0u;
        }
        asked.pending = wanted;
        asked.ask(slot);
    }
};

// A step whose record, b and far entries have arrived: s, that is to be b - (sum over far entries), and what it
// is to be scaled with. If it has far entries, the first values are asked for.
template <class V, int K>
struct Begun {
    static constexpr int AT_ONCE = K == 2 ? 2 : 3; // as many as rows of grids have at most
    u32 n_far;                                     // and DIVIDE
    V s, inverse;
    Far<AT_ONCE, V> far;

    __device__ bool has_far() const { return (n_far & ~DIVIDE) != 0; }
};

template <class V, int K>
__device__ SharedAddress place_of_r(const Desk<V, K>& desk, u32 q) {
    using Step = Record<V, K>;
    constexpr u32 R = u32(sizeof(Step::value) + sizeof(Step::slots));
    return desk.record(q) + R + desk.lane * u32(sizeof(V));
}

// Begin with step q: read what has arrived, and ask for the first far values. Nothing is waited for.
template <bool UNIT, class V, int K>
__device__ __forceinline__ void begin_step(const Desk<V, K>& desk, u32 q, u32 turn,
                                           const Columns<V, 1>& on, Begun<V, K>& step) {
    using Step = Record<V, K>;
    constexpr u32 FAR = u32(sizeof(Step::value) + sizeof(Step::slots) + sizeof(Step::r));
    const StepInfo info = read_shared<StepInfo>(desk.info_of(turn));
    const u32 at = desk.ring.place(q), lane = desk.lane;
    if (lane == 0) write_shared(desk.place + at * 8, Pack<u32, 2>{info.start, info.rows});
    step.n_far = info.n_far;
    step.s = V(0);
    if (lane < info.rows) step.s = read_shared<V>(desk.b_of(turn));
    if (!UNIT) step.inverse = read_shared<V>(place_of_r(desk, q));
    if (!step.has_far()) return;
    const u32 range = read_shared<u32>(desk.record(q) + FAR + lane * 4);
    step.far.first = range & 0xffffu, step.far.end = range >> 16;
    step.far.ask(desk.far_of(turn), on);
}

// End it: subtract the far entries, put r into the ring, and tell. Whether a row has more of them is voted on before
// the wait, for the sweeper waits for all that comes after it.
template <bool UNIT, class V, int K>
__device__ __forceinline__ void end_step(const Desk<V, K>& desk, u32 q, u32 turn,
                                         const Columns<V, 1>& on, Begun<V, K>& step, Launch launch,
                                         Patience& patience) {
    constexpr int AT_ONCE = Begun<V, K>::AT_ONCE;
    const int lane = int(desk.lane);
    auto& far = step.far;
    bool more = step.has_far();
    while (more) {
        more = __any_sync(FULL_WARP, far.first + AT_ONCE < far.end);
        V value[AT_ONCE] = {};
        await_asked(far.slot, far.asked, value, launch, patience, lane);
#pragma unroll
        for (int e = 0; e < AT_ONCE; ++e)
            if (far.wanted >> e & 1u) step.s = minus_product(step.s, far.factor[e], value[e]);
        far.first += AT_ONCE;
        if (more) far.ask(desk.far_of(turn), on);
    }
    write_shared(place_of_r(desk, q), UNIT ? step.s : times(step.s, step.inverse));
    __syncwarp();
    const SharedAddress flag = desk.filled + desk.ring.place(q) * 4;
    if (lane == 0) store_release_shared(flag, (q + 1) | (step.n_far & DIVIDE));
}

// Steps g, g + gatherers, ... of the `count` steps of a strip, of which `begin` is the first. The turns
// before the first, with q below zero, fill the stage.
//
// Ordering: a lane waits for its own group of copies, and its warp meets, so that each lane sees the
// copies of all; and meets again (in `end_step`) before lane 0 releases `filled`, so that whoever
// acquires that sees them as well. The warp also meets, there, between what lanes read of a place in the
// stage and the next copies into it. A place in the ring is copied into after `freed` was seen raised.
// Progress: a gatherer waits for the place of the step AHEAD turns behind one that it has filled. The
// smallest unfilled step u is then one turn behind one filled by its gatherer, and needs the steps
// up to u + (AHEAD - 1) * gatherers - (steps of the ring) swept. The sweeper, which waits for u at most
// four steps behind what it told, has told of all before u - 4: that is enough for a ring of
// (AHEAD - 1) * gatherers + 5 steps.
template <bool UNIT, class V, int K>
__device__ void gather_copied(const Strips<V>& T, u32 count, u32 begin, u32 g, u32 gatherers,
                              const Columns<V, 1>& on, Hall& hall, Ring<V, K, 1> ring,
                              Stage<V>& stage, Launch launch, Patience& patience, int lane) {
    const Desk<V, K> desk(hall, ring, stage, lane);
    const int stride = int(gatherers), behind = AHEAD * stride, last = int(count);
    const FarEntry<V>* const entries = static_cast<const FarEntry<V>*>(T.far_entries);
    const char* const records = static_cast<const char*>(T.records);
    Begun<V, K> step{};
    u32 turn = 0;
    for (int q = int(g) - 2 * behind; q < last; q += stride, ++turn) {
        if (q >= 0) end_step<UNIT>(desk, u32(q), turn, on, step, launch, patience);
        const int following = q + stride, next = q + behind, later = next + behind;
        copy_async_wait<AHEAD - 2>();
        __syncwarp();
        if (following >= 0 && following < last)
            begin_step<UNIT>(desk, u32(following), turn + 1, on, step);
        if (next >= 0 && next < last) {
            if (!await_place(u32(next), desk, launch, patience)) break;
            const char* const from = records + (long long)(begin + next) * sizeof(Record<V, K>);
            copy_step(desk, from, u32(next), turn + AHEAD, on.b, entries);
        }
        if (later < last && lane == 0)
            copy_async<16>(desk.info_of(turn + 2 * AHEAD), T.info + begin + later);
        copy_async_commit();
    }
    copy_async_wait<0>();
}

// The far entries of a triangle with their values, for copies. One thread an entry.
template <class F>
__global__ void strips_entries(int n, const int* far_position, const F* far_data,
                               FarEntry<F>* entries) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < n) entries[e] = {far_data[e], far_position[e]};
}

// The records of the steps of a triangle, and which steps have rows that are to be divided: their factor
// is one. One warp a step.
template <class F, int K>
__global__ void strips_records(int n, StepInfo* info, const u16* near_slot, const F* near_data,
                               const F* scale, const int* far_ptr, Record<F, K>* records) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= n) return; // whole warps
    const int step = e / 32;
    const u32 lane = u32(e % 32);
    const StepInfo of = info[step];
    __syncwarp(); // all have read what one changes below
    Record<F, K>& to = records[step];
    const u32 at = of.start + lane;
    const bool has_row = lane < of.rows;
    const F inverse = has_row && scale ? scale[at] : F(1);
    const bool divide = __any_sync(FULL_WARP, is_zero(inverse));
    const F factor = is_zero(inverse) ? F(1) : inverse;
    Pack<F, K> value;
    Slots<K> slots;
#pragma unroll
    for (int k = 0; k < K; ++k)
        value.v[k] = has_row ? times(near_data[(long long)at * K + k], factor) : F(0);
#pragma unroll
    for (int k = 0; k < K / 2; ++k)
        slots.v[k] =
            has_row ? reinterpret_cast<const Slots<K>*>(near_slot)[at].v[k] : WINDOW << 16 | WINDOW;
    to.set_value(int(lane), value);
    to.slots[lane] = slots;
    to.set_r(int(lane), {factor});
    to.far[lane] = has_row ? (far_ptr[at] - of.far) | (far_ptr[at + 1] - of.far) << 16 : 0u;
    if (lane == 0) info[step].n_far = (of.n_far & ~DIVIDE) | (divide ? DIVIDE : 0u);
}

} // namespace gpuilu
