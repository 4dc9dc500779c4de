// How blocks of one launch wait for each other: tickets, bounded patience, voted waits for marked values,
// flags and counters.
//
// Nothing else in the package but accesses.cuh uses PTX, atomics for waiting, or volatile. The memory
// model is PTX's:
//   - `load_relaxed` / `store_relaxed` at device scope are morally strong and single-copy atomic for
//     one machine word, so a value that *is* its own ready mark needs no fence at all;
//   - `store_release` / `load_acquire` order everything before the store in the storing thread (and,
//     through a preceding __syncwarp, in its warp) before everything after the load;
//   - `fence_device` before a relaxed store or atomic makes that a release: one fence for many counts.
//     A counter is only changed by atomics, so whoever acquires its last value has acquired all.
#pragma once
#include "marks.cuh"

namespace gpuilu {

// ---- tickets, patience, status ------------------------------------------------------------------
// What the blocks of one launch share: `control` is device memory set to all ones before the launch,
// `status` is one word of pinned host memory that Python reads.
struct Launch {
    u32* control;
    u32* status;
    u64 patience_ns;
};
constexpr int TICKET = 0, ABANDONED = 1, PROGRESS = 2, TURN = 3, CONTROL_WORDS = 4;
constexpr u32 STALLED = 1;

// Reset the control words of a launch to come, by one thread of one before it on the same stream.
__device__ inline void reset_control(Launch next) {
    for (int word = 0; word < CONTROL_WORDS; ++word) next.control[word] = MARK32;
}

// The next task in topological order. Whoever holds a ticket is running, so a task waits only for
// tasks whose holders are resident, whatever the order in which blocks were started.
__device__ inline u32 take_ticket(Launch launch) {
    return atomicAdd(launch.control + TICKET, 1u) + 1u;
}

// The next of what is to be done once all tickets are taken.
__device__ inline u32 take_turn(Launch launch) {
    return atomicAdd(launch.control + TURN, 1u) + 1u;
}

// Tickets for the warps of a block, one atomic for as many tasks as the block has warps: a million
// tickets a millisecond is all that one word in the L2 cache gives.
//
// The warps draw numbers in shared memory; the drawer of the first number of a group takes the
// ticket of the group, after that of the group before is there, and leaves it, with the group's number,
// for the others. So whatever the block has drawn is smaller than what it will draw, and while the
// smallest unfinished task is undrawn, all that its block holds is finished and a warp will draw it.
struct BlockTickets {
    static constexpr u32 KEPT = 64; // groups; a warp reads its group's ticket at once
    u32 drawn;
    u64 group[KEPT];

    // By all threads of the block, before a barrier.
    __device__ void reset() {
        if (threadIdx.x == 0) drawn = 0;
        for (u32 g = threadIdx.x; g < KEPT; g += blockDim.x) group[g] = 0;
    }

    __device__ u32 wait_for(u32 g) const {
        u64 found;
        do {
            found = load_relaxed_shared(group + g % KEPT);
        } while (u32(found >> 32) != g + 1);
        return u32(found);
    }

    // The next task, by one lane of a warp.
    __device__ u32 take(Launch launch) {
        const u32 warps = blockDim.x / 32, number = atomicAdd(&drawn, 1u);
        const u32 g = number / warps, k = number % warps;
        if (k) return wait_for(g) * warps + k;
        if (g) wait_for(g - 1);
        const u32 ticket = take_ticket(launch);
        store_relaxed_shared(group + g % KEPT, u64(g + 1) << 32 | ticket);
        return ticket * warps;
    }
};

// For tasks that are long: say that this one gets on.
__device__ inline void note_progress(Launch launch, int lane) {
    if (lane == 0) atomicAdd(launch.control + PROGRESS, 1u);
}

// The same without a branch, if it is time to; by a number that others of the launch do not leave there.
__device__ inline void note_progress_if(bool is_time, u32 number, Launch launch, int lane) {
    store_relaxed_if(is_time && lane == 0, launch.control + PROGRESS, number);
}

// Since when nothing has changed in a launch.
struct Waited {
    u64 since = 0;
    u32 seen = 0;
};

// Whether the launch is to be abandoned, or is already: called now and then by a lane that waits.
__noinline__ __device__ bool no_progress(Launch launch, Waited& past) {
    const u32 progress =
        load_relaxed(launch.control + TICKET) + load_relaxed(launch.control + PROGRESS);
    const u64 now = nanoseconds();
    if (load_relaxed(launch.control + ABANDONED) != MARK32) return true;
    if (past.since == 0 || progress != past.seen) {
        past = {now, progress};
        return false;
    }
    if (now - past.since <= launch.patience_ns) return false;
    store_system(launch.status, STALLED);
    store_relaxed(launch.control + ABANDONED, 0u);
    return true;
}

// Ends a wait when the whole launch has made no progress for `patience_ns`: no ticket was taken, and
// no task in hand said that it gets on.
struct Patience {
    static constexpr u32 SELDOM = 1024; // of so many polls one asks
    Waited past;
    u32 polls = 0;
    bool abandoned = false;

    // Called by a whole warp after a fruitless poll; the answer is the same in every lane.
    __device__ bool exhausted(Launch launch, int lane) { return !again() && over(launch, lane); }

    // The two parts of it: whether to poll again without asking, which is in every loop that waits, and what
    // the answer is, which hardly ever is needed.
    __device__ bool again() { return ++polls % SELDOM != 0; }
    __device__ bool over(Launch launch, int lane) {
        if (!abandoned) {
            bool give_up = false;
            Waited waited = past; // whose address is taken: `past` stays in registers
            if (lane == 0) give_up = no_progress(launch, waited);
            past = waited;
            abandoned = __any_sync(FULL_WARP, give_up);
        }
        if (abandoned) polls = SELDOM - 1; // so that it is asked at once from now on
        return abandoned;
    }
};

// ---- voted waits --------------------------------------------------------------------------------
// Up to N values that are asked for at once. Bit r of `pending`: value r is not there yet.
template <int N, class V>
struct Asked {
    using Word = typename Words<V>::type;
    static constexpr int H = Words<V>::count;
    Word w[N][H];
    u32 pending;

    // Poll for what is pending; the answers are waited for where they are looked at.
    __device__ void ask(const V* const (&slot)[N]) {
#pragma unroll
        for (int r = 0; r < N; ++r)
            if (pending >> r & 1u) load_words(slot[r], w[r]);
    }
    // Those values that the last poll found.
    __device__ void take(V (&value)[N]) {
#pragma unroll
        for (int r = 0; r < N; ++r) {
            if (!(pending >> r & 1u)) continue;
            bool ready = true;
#pragma unroll
            for (int h = 0; h < H; ++h) ready = ready && w[r][h] != Word(~Word(0));
            if (!ready) continue;
            value[r] = Words<V>::join(w[r]);
            pending &= ~(1u << r);
        }
    }
    // NaN for those that are still missing.
    __device__ void give_up(V (&value)[N]) const {
#pragma unroll
        for (int r = 0; r < N; ++r)
            if (pending >> r & 1u) value[r] = not_a_number<V>();
    }
};

// Read N published values, all polls in flight at once; `wanted` has a bit for each value this lane
// needs, the others come out as zero. The warp leaves together, when every lane has all of its own.
// After an abandoned launch whatever is missing comes out as NaN, so that dependents drain.
template <int N, class V>
__device__ void await(const V* const (&slot)[N], u32 wanted, V (&value)[N], Launch launch,
                      Patience& patience, int lane) {
    const typename Words<V>::type nothing[Words<V>::count] = {};
#pragma unroll
    for (int r = 0; r < N; ++r) value[r] = Words<V>::join(nothing);
    Asked<N, V> asked;
    asked.pending = wanted;
    do {
        asked.ask(slot);
        asked.take(value);
    } while (__any_sync(FULL_WARP, asked.pending != 0) && !patience.exhausted(launch, lane));
    asked.give_up(value);
}

// The same for values that were asked for before; those that are not wanted stay as they are. A loop of its own:
// `await` made of this one costs dense_block its registers.
template <int N, class V>
__device__ void await_asked(const V* const (&slot)[N], Asked<N, V>& asked, V (&value)[N],
                            Launch launch, Patience& patience, int lane) {
    asked.take(value);
    while (__any_sync(FULL_WARP, asked.pending != 0) && !patience.exhausted(launch, lane)) {
        asked.ask(slot);
        asked.take(value);
    }
    asked.give_up(value);
}

// Wait until one value is published, polling seldom, for where others wait for it in haste.
template <class V>
__device__ void await_calmly(const V* slot, u32 pause_ns, Launch launch, Patience& patience,
                             int lane) {
    using Word = typename Words<V>::type;
    while (true) {
        Word w[Words<V>::count];
        load_words(slot, w);
        bool ready = true;
#pragma unroll
        for (int h = 0; h < Words<V>::count; ++h) ready = ready && w[h] != Word(~Word(0));
        if (__all_sync(FULL_WARP, ready) || patience.exhausted(launch, lane)) return;
        __nanosleep(pause_ns);
    }
}

// Wait until a flag is no longer marked, and see everything its setter did before setting it.
__device__ inline void await_flag(const u32* flag, Launch launch, Patience& patience, int lane) {
    while (__any_sync(FULL_WARP, load_acquire(flag) == MARK32))
        if (patience.exhausted(launch, lane)) return;
}

// Wait until a counter that started as all ones has been counted up `target` times, and see what was
// done before each count.
__device__ inline void await_count(const u32* counter, u32 target, Launch launch,
                                   Patience& patience, int lane) {
    if (target == 0) return;
    while (__any_sync(FULL_WARP, load_acquire(counter) + 1u != target))
        if (patience.exhausted(launch, lane)) return;
}

// The same for a counter in two parts, the one in shared memory starting as zero.
__device__ inline void await_counts(const u32* counter, const u32* own, u32 target, Launch launch,
                                    Patience& patience, int lane) {
    if (target == 0) return;
    while (__any_sync(FULL_WARP, load_acquire(counter) + 1u + load_acquire_shared(own) != target))
        if (patience.exhausted(launch, lane)) return;
}

// Set a flag after everything this warp has done so far.
__device__ inline void set_flag(u32* flag, int lane) {
    __syncwarp();
    if (lane == 0) store_release(flag, 0u);
}

// The largest of a warp, in all its lanes.
__device__ inline u32 warp_max(u32 mine) {
#pragma unroll
    for (int o = 16; o > 0; o /= 2) mine = max(mine, __shfl_xor_sync(FULL_WARP, mine, o));
    return mine;
}

// Largest of what all warps have seen; `slot` starts as zero.
__device__ inline void report_most(u32* slot, u32 seen, int lane) {
    seen = warp_max(seen);
    if (lane == 0 && seen > load_relaxed(slot)) atomicMax(slot, seen);
}

// Smallest row at which something happened; `slot` starts as all ones.
__device__ inline void report_row(u32* slot, int row) {
    atomicMin(slot, u32(row));
}

} // namespace gpuilu
