// T x = b, rows in strips, one block a strip: inside a block the values go through shared memory.
#include "entries.cuh"
#include "strips_copied.cuh"
#include "strips_leave.cuh"
#include "strips_shared.cuh"
#include "sweep.cuh"

namespace gpuilu {

// What a warp does, as which of how many. The sweeper has a quarter of the multiprocessor for itself
// where there are warps enough: nobody else issues there.
enum Task { SWEEP, GATHER, REST };
struct Role {
    Task task;
    u32 number, of;
};
__device__ inline Role role_of(u32 warp, u32 warps) {
    if (warp == 0) return {SWEEP, 0, 1};
    if (warps < 8) return {GATHER, warp - 1, warps - 1};
    if (warp % 4 == 0) return {REST, 0, 1};
    return {GATHER, warp - 1 - warp / 4, warps - 1 - (warps - 1) / 4};
}

// Threads of a block, at most: the fewer registers a gatherer needs, the more of them there are.
// blocked.py says the same.
template <class V, int FAR, int C>
constexpr int MOST_THREADS = FAR <= COPIED && C == 1 && sizeof(V) <= 8 ? 640 : 512;

// Solve T x = b; y, by position and marked "not ready" before, carries the values between strips. Of several
// right-hand sides it has C after C, each group (n_positions, C), filled up with solutions for b = 0. One
// block a strip and C right-hand sides; warp 0 sweeps, the others gather: two warps at least, any grid.
// Blocks that find no strip put x in the order of rows, of one right-hand side, if there is an x.
//
// Ordering: between blocks a value is its own ready mark, one word stored once and read by relaxed
// polls. Inside a block the gatherer of a step releases `filled`, which every lane of the sweeper
// acquires, or one does and all meet in __syncwarp, before they use what they read of the ring; the
// sweeper releases `swept`, or raises `freed`, after all its lanes have read four steps of the ring (so
// that the places may be filled again), and gatherers acquire that. The window is the sweeper's alone, and
// so are its terms a gatherer's, ordered by __syncwarp; a near value lies at most WINDOW - 64 positions
// back, so the slot is not yet used again, not even by the own step.
// Progress: strips are taken by ticket in topological order, so far values come from strips whose
// blocks are running, or from earlier steps of the own strip. The gatherers fill the steps in order,
// each its own in turn: the smallest unfilled step waits only for swept steps and for other strips,
// and its slot in the ring is free; the smallest unswept step waits for its filling alone.
// Source: own; monotone cuts, and the value as its own mark after Dufrechou and Ezzatti 2018.
template <class F, class V, int K, int FAR, int C, bool UNIT>
__global__ void __launch_bounds__((MOST_THREADS<V, FAR, C>), 1)
    strips_solve(Strips<F> T, const V* b, Source from, V* y, V* x, int nrhs, int ring_steps,
                 Launch launch) {
    __shared__ Hall hall;
    extern __shared__ Pack<u64, 2> room[];
    Window<V, C>& window = *reinterpret_cast<Window<V, C>*>(room);
    constexpr int L = near_of_lane(K);
    const Ring<V, L, C> ring{reinterpret_cast<RingStep<V, L, C>*>(&window + 1),
                             u32(ring_steps) - 1};
    const int lane = kept(threadIdx.x & 31), warp = same_in_warp(threadIdx.x / 32);
    const Role role = role_of(warp, blockDim.x / 32);
    const int groups = (nrhs + C - 1) / C;
    Patience patience;
    bool again = false;
    if (threadIdx.x < C)
        window.value[threadIdx.x / Pieces<V, C>::EACH][WINDOW].v[threadIdx.x % Pieces<V, C>::EACH] =
            V(0);
    while (true) {
        __syncthreads(); // the strip before is finished with the ring
        if (threadIdx.x == 0) hall.ticket = take_ticket(launch);
        __syncthreads();
        const u32 ticket = same_in_warp(hall.ticket), strip = ticket / u32(groups);
        if (strip >= u32(T.n_strips)) break;
        const Columns<V, C> on(b, from, y, T.n_positions, int(ticket % u32(groups)), nrhs);
        const u32 begin = same_in_warp(T.step_ptr[strip]);
        const u32 count = same_in_warp(T.step_ptr[strip + 1]) - begin;
        hall.make_flags(again);
        again = true;
        __syncthreads();
        if (role.task == SWEEP)
            sweep<(K > L), F, V, L, C, FAR == COPIED>(T, count, begin, on, hall, window, ring,
                                                      launch, patience, lane);
        else if (role.task == GATHER) {
            if constexpr (FAR == COPIED) {
                auto stages = reinterpret_cast<Stage<V>*>(ring.steps + ring_steps);
                gather_copied<UNIT>(T, count, begin, role.number, role.of, on, hall, ring,
                                    stages[role.number], launch, patience, lane);
            } else if constexpr (FAR == SHARED_OUT) {
                auto terms = reinterpret_cast<Terms<V>*>(ring.steps + ring_steps);
                gather_listed<UNIT, K>(T, count, begin, role.number, role.of, on, hall, ring,
                                       terms[role.number], launch, patience, lane);
            } else
                gather<FAR, UNIT, K>(T, count, begin, role.number, role.of, on, hall, ring, launch,
                                     patience, lane);
        }
    }
    if constexpr (C == 1) {
        const int n = T.place ? T.n_rows : T.n_positions;
        if (x) leave(T.place, T.row, u32(n), y, x, hall, launch, patience, lane);
    }
}

// Positions of a thread in `strips_enter`, entries of one in `strips_scatter`, a block apart, so that more is under
// way at once. strip_launches.py says the same.
constexpr int EACH = 4;

// b_by_position = b in the order of positions; y = "not ready"; and the control words of the sweep that
// follows on the stream, which sees all this as the end of one launch orders it before the next. For one right-hand
// side, without segments. EACH positions a thread.
template <class V>
__global__ void strips_enter(int n, const int* row, const V* b, V* b_by_position, V* y,
                             Launch next) {
    const u32 first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
    if (first == 0) reset_control(next);
    V value[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const u32 p = first + k * blockDim.x;
        if (p < u32(n)) value[k] = b[row[p]];
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const u32 p = first + k * blockDim.x;
        if (p >= u32(n)) return;
        b_by_position[p] = value[k];
        mark(y + p);
    }
}

// x = y in the order of rows, where `strips_solve` leaves that to others. EACH entries of (n positions, nrhs) a
// thread, a block apart.
template <class V, int C>
__global__ void strips_scatter(int n, const int* row, const V* y, V* x, int nrhs) {
    const u64 first = u64(blockIdx.x) * blockDim.x * EACH + threadIdx.x;
    u64 p = first / u32(nrhs);
    u32 c = u32(first - p * u32(nrhs));
    // How far an entry of this thread is from the next, in rows and columns.
    const u32 rows = blockDim.x / u32(nrhs), columns = blockDim.x % u32(nrhs);
    int to[EACH];
    u32 column[EACH];
    V value[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        to[k] = p < u64(n) ? row[p] : -1;
        column[k] = c;
        if (p < u64(n)) value[k] = y[(u64(c / C) * u32(n) + p) * C + c % C];
        c += columns;
        p += rows;
        if (c >= u32(nrhs)) c -= u32(nrhs), ++p;
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k)
        if (to[k] >= 0) x[(long long)to[k] * nrhs + column[k]] = value[k];
}

// The present values of the near and far entries of each position, found in the rows of T. One thread a
// position; without segments of long rows.
template <class F>
__global__ void strips_refresh(int n, int K, const int* row, const u16* near_slot, F* near_data,
                               const int* far_ptr, const int* far_position, F* far_data,
                               const int* indptr, const int* indices, const F* data) {
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    const int i = row[p];
    for (int k = 0; k < K; ++k) {
        const long long e = (long long)p * K + k;
        const int slot = near_slot[e];
        near_data[e] = F(0);
        if (slot == WINDOW) continue;
        const int back = (p - slot + WINDOW - 1) % WINDOW + 1; // the latest position there before p
        near_data[e] = entry_at(indptr, indices, data, i, row[p - back]);
    }
    for (int e = far_ptr[p]; e < far_ptr[p + 1]; ++e)
        far_data[e] = entry_at(indptr, indices, data, i, row[far_position[e]]);
}

} // namespace gpuilu
