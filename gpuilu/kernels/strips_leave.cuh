// x in the order of rows, by blocks for which no strip is left, while others are still at work.
#pragma once
#include "strips.cuh"

namespace gpuilu {

constexpr u32 LEAVE_PAUSE_NS = 400; // between polls of a value that others wait for in haste
constexpr int LEFT = 8;             // rows or positions of a thread at once

// x = y in the order of rows, one right-hand side: gathered by the position of each row, or scattered by the row
// of each position where there are no such numbers. By whole blocks, each as often as it finds something to
// do; in the order of rows, or of positions, which is roughly that in which values come.
//
// Ordering: a value is its own ready mark, one word stored once and read by relaxed polls; nothing
// else of other blocks is read, and x is not b.
// Progress: whoever comes here found all strips taken, by blocks that are running and do not wait
// for it.
template <class V>
__device__ void leave(const int* place, const int* row, u32 n, const V* y, V* x, Hall& hall,
                      Launch launch, Patience& patience, int lane) {
    const int* const map = place ? place : row;
    const u32 threads = blockDim.x;
    while (true) {
        __syncthreads(); // all have read what the first thread changes
        if (threadIdx.x == 0) hall.ticket = take_turn(launch), hall.latest = 0;
        __syncthreads();
        const u64 begin = u64(hall.ticket) * (threads * LEFT);
        if (begin >= n) return;
        int to[LEFT];
        const V* slot[LEFT];
        V value[LEFT];
        u32 wanted = 0, latest = 0;
#pragma unroll
        for (int e = 0; e < LEFT; ++e) {
            const u64 k = begin + e * threads + threadIdx.x;
            const int mapped = k < n ? map[k] : -1;
            const u32 at = place ? u32(mapped) : u32(k);
            to[e] = place ? int(k) : mapped;
            slot[e] = y + at;
            if (mapped < 0) continue;
            wanted |= 1u << e;
            latest = max(latest, at);
        }
        // One warp polls for all, and of values only that which is likely to come last.
        latest = warp_max(latest);
        if (lane == 0) atomicMax(&hall.latest, latest);
        __syncthreads();
        if (threadIdx.x < 32) await_calmly(y + hall.latest, LEAVE_PAUSE_NS, launch, patience, lane);
        __syncthreads();
        await(slot, wanted, value, launch, patience, lane);
#pragma unroll
        for (int e = 0; e < LEFT; ++e)
            if (wanted >> e & 1u) x[to[e]] = value[e];
    }
}

} // namespace gpuilu
