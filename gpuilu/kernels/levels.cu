// depth[i] = 1 + max depth[j] over the rows j that row i depends on: the level analysis in one launch.
#include "sync.cuh"

namespace gpuilu {

constexpr int RUN = 32; // consecutive rows of a warp, one a lane

// How the rows of a run depend on each other: all of it known before the first wait.
struct Inside {
    u32 on;      // lanes that this lane's row depends on
    u32 sources; // lanes that any row depends on
    int start; // first lane of the chain that ends here, each row of it depending on the one before
    bool chains; // nobody depends on a row that is not earlier in its chain
};

// Take the entries of the own run off a row's entries begin .. end: the last of a lower row, the first of
// an upper one, since columns ascend.
template <bool LOWER>
__device__ u32 split_off(int n, const int* indices, long long first, int& begin, int& end) {
    u32 on = 0;
    while (begin < end) {
        const int j = indices[LOWER ? end - 1 : begin];
        const long long lane = (LOWER ? j : n - 1 - j) - first;
        if (lane < 0 || lane >= RUN) break;
        on |= 1u << lane;
        if (LOWER)
            --end;
        else
            ++begin;
    }
    return on;
}

__device__ inline Inside analysed(u32 on, int lane) {
    const u32 before = (1u << lane) - 1;
    const u32 linked = __ballot_sync(FULL_WARP, lane > 0 && (on >> (lane - 1) & 1u));
    Inside inside;
    inside.on = inside.sources = on;
    inside.start = 31 - __clz(~linked & (before << 1 | 1u));
    inside.chains = __all_sync(FULL_WARP, (on & ((1u << inside.start) - 1)) == 0);
#pragma unroll
    for (int o = 1; o < 32; o *= 2) inside.sources |= __shfl_xor_sync(FULL_WARP, inside.sources, o);
    return inside;
}

// The depth of each lane's row, from the deepest row outside that it depends on. In chains the
// nearest row is the deepest, so a scan does: depth_i - i is the largest of depth_k - k, k in the
// chain. Else row after row of those that others depend on.
__device__ inline int depth_inside(const Inside& inside, int deepest, int lane) {
    int depth = deepest + 1;
    if (inside.chains) {
        depth -= lane;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const int other = __shfl_up_sync(FULL_WARP, depth, o);
            if (lane - o >= inside.start && other > depth) depth = other;
        }
        return depth + lane;
    }
    for (u32 left = inside.sources; left; left &= left - 1) {
        const int k = __ffs(int(left)) - 1, other = __shfl_sync(FULL_WARP, depth, k);
        if ((inside.on >> k & 1u) && other >= depth) depth = other + 1;
    }
    return depth;
}

// The largest depth of `length` rows `j`; 0 of none. Whole warp: all polls of a lane in flight at
// once, POLLS of them, and a vote to leave together.
template <int POLLS>
__device__ int await_deepest(const int* j, int length, const u32* depth, Launch launch,
                             Patience& patience, int lane) {
    constexpr int ABSENT = -1; // and 0 is "not yet"
    int deepest = 0;
    bool more = true;
    for (; more; j += POLLS, length -= POLLS) {
        more = __any_sync(FULL_WARP, length > POLLS);
        const u32* slot[POLLS];
        int found[POLLS];
#pragma unroll
        for (int r = 0; r < POLLS; ++r) {
            found[r] = r < length ? 0 : ABSENT;
            slot[r] = depth + (r < length ? j[r] : 0);
        }
        while (true) {
#pragma unroll
            for (int r = 0; r < POLLS; ++r)
                if (found[r] == 0) found[r] = int(load_relaxed(slot[r]));
            bool pending = false;
#pragma unroll
            for (int r = 0; r < POLLS; ++r) pending = pending || found[r] == 0;
            if (!__any_sync(FULL_WARP, pending)) break;
            if (patience.exhausted(launch, lane)) return 0;
        }
#pragma unroll
        for (int r = 0; r < POLLS; ++r) deepest = found[r] > deepest ? found[r] : deepest;
    }
    return deepest;
}

// depth[i] = level[i] + 1, and depth[n] is the largest; zero on entry. A warp takes runs of RUN
// consecutive rows (from the last row on for an upper triangle), one a lane, by ticket, in the
// order in which rows can depend on each other. Any grid; blocks of whole warps, 256 threads at
// most.
//
// Between runs rows hand their depth over through device memory, and a depth is its own ready mark (zero
// means "not yet"), one 32-bit word stored once and read by relaxed polls: nothing else is
// communicated, so no fence is needed. Inside a run nothing waits: once the depths from outside
// are there, a scan over the lanes gives all of them.
// POLLS: as many as most rows have entries, for each further batch begins with loads of its columns once
// the one before has all its depths: on the way from run to run.
// Progress: a run depends on itself and on runs with smaller tickets, whose warps are running.
// Source: the self-scheduled analysis that Li (2017), section 4.4, leaves open.
template <bool LOWER, int POLLS = 4>
__global__ void __launch_bounds__(256)
    row_depths(int n, const int* indptr, const int* indices, u32* depth, Launch launch) {
    const int lane = threadIdx.x & 31;
    Patience patience;
    u32 most = 0;
    while (true) {
        const u32 ticket = lane == 0 ? take_ticket(launch) : 0;
        const long long first = (long long)__shfl_sync(FULL_WARP, ticket, 0) * RUN;
        if (first >= n) return report_most(depth + n, most, lane);
        const long long at = first + lane;
        const int i = at >= n ? -1 : LOWER ? int(at) : n - 1 - int(at);
        int begin = i < 0 ? 0 : indptr[i], end = i < 0 ? 0 : indptr[i + 1];
        const u32 on = split_off<LOWER>(n, indices, first, begin, end);
        const Inside inside = analysed(on, lane);
        const int deepest =
            await_deepest<POLLS>(indices + begin, end - begin, depth, launch, patience, lane);
        const int mine = depth_inside(inside, deepest, lane);
        if (i < 0) continue;
        store_relaxed(depth + i, u32(mine)); // some depth after an abandoned wait too
        most = max(most, u32(mine));
    }
}

} // namespace gpuilu
