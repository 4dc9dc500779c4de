// A triangle in strips: how long solves in other strips would take, the steps, and which entries are near
// and which far. Kernels without waiting; trsv/strips.py says the same in array operations.
#include "strips.cuh"

namespace gpuilu {

constexpr int STEP_ROWS = 32; // at most

// The sum over a warp, in all its lanes.
__device__ inline u32 warp_sum(u32 mine) {
#pragma unroll
    for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(FULL_WARP, mine, o);
    return mine;
}

// strip[i] of `count` ranges of consecutive rows, from the last row on for an upper triangle. One
// thread a row.
template <bool LOWER>
__global__ void range_of_rows(int n, int count, int* strip) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) strip[i] = int((long long)(LOWER ? i : n - 1 - i) * count / n);
}

// *broken is made 1 if some entry lies behind its row along an axis of a grid, on which row i is at
// i / stride % length. One thread a row, blocks of whole warps.
template <bool LOWER>
__global__ void check_axis(int n, int stride, int length, const int* indptr, const int* indices,
                           u32* broken) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool behind = false;
    for (int p = i < n ? indptr[i] : 0, end = i < n ? indptr[i + 1] : 0; p < end; ++p) {
        const int step = i / stride % length - indices[p] / stride % length;
        behind = behind || (LOWER ? step < 0 : step > 0);
    }
    // The look before it keeps the warps of other matrices from queueing for one word.
    if (__any_sync(FULL_WARP, behind) && threadIdx.x % 32 == 0 && load_relaxed(broken) == 0)
        atomicOr(broken, 1u);
}

// strip[i] = strip[i] * parts + the part of an axis, cut into `parts`, in which row i is. One thread a
// row.
template <bool LOWER>
__global__ void cut_axis(int n, int stride, int length, int parts, int* strip) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int part = int((long long)(i / stride % length) * parts / length);
    strip[i] = strip[i] * parts + (LOWER ? part : parts - 1 - part);
}

// ---- what a candidate promises ------------------------------------------------------------------

// How many strips each of some candidates has, the fewest first; zero where there are no more.
constexpr int MOST_TRIED = 8;
struct Numbers {
    long long of[MOST_TRIED];
};

// What is told of a candidate before its widest strips, one candidate after the other.
enum Told { STEPS, FAR_ENTRIES, BEYOND, CROWDED, WIDEST };

// Of each number of ranges: rows[t, l] += 1 for each row of range t at level l, one number after the other; and
// FAR_ENTRIES += how many entries lead to another range, BEYOND += how many of a row's others are more than
// `few`, CROWDED += 1 if they are more than `many`. Zero on entry; columns ascend in each row. One thread
// for any number of rows, blocks of whole warps, any grid.
template <bool LOWER>
__global__ void count_range_rows(int n, int n_levels, int few, int many, Numbers numbers,
                                 const int* level, const int* indptr, const int* indices, u32* rows,
                                 u32* told) {
    __shared__ u32 sums[MOST_TRIED][WIDEST];
    if (threadIdx.x < MOST_TRIED * WIDEST) sums[threadIdx.x / WIDEST][threadIdx.x % WIDEST] = 0;
    __syncthreads();
    const long long threads = (long long)gridDim.x * blockDim.x;
    u32 far[MOST_TRIED] = {}, beyond[MOST_TRIED] = {}, crowded[MOST_TRIED] = {};
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += threads) {
        const int i = int(at), begin = indptr[i], length = indptr[i + 1] - begin;
        const u64 rank = LOWER ? i : n - 1 - i;
        u32* of_number = rows + level[i];
        int inside = length; // entries, those nearest to the diagonal
#pragma unroll
        for (int c = 0; c < MOST_TRIED; ++c) {
            const u64 count = numbers.of[c];
            if (count == 0) continue;
            const u64 mine = rank * count / n;
            atomicAdd(of_number + mine * n_levels, 1u);
            of_number += count * n_levels;
            const auto is_inside = [&](int nearest) {
                const int j = indices[begin + (LOWER ? length - nearest : nearest - 1)];
                return u64(LOWER ? j : n - 1 - j) * count >= mine * n;
            };
            while (inside > 0 && !is_inside(inside)) --inside; // not far from that of fewer ranges
            while (inside < length && is_inside(inside + 1)) ++inside;
            far[c] += length - inside;
            beyond[c] += inside > few ? inside - few : 0;
            crowded[c] += inside > many;
        }
    }
#pragma unroll
    for (int c = 0; c < MOST_TRIED; ++c) {
        if (numbers.of[c] == 0) continue;
        const u32 mine[] = {0, warp_sum(far[c]), warp_sum(beyond[c]), warp_sum(crowded[c])};
        for (int k = FAR_ENTRIES; k < WIDEST; ++k)
            if (threadIdx.x % 32 == 0 && mine[k]) atomicAdd(&sums[c][k], mine[k]);
    }
    __syncthreads();
    if (threadIdx.x >= MOST_TRIED * WIDEST) return;
    const u32 c = threadIdx.x / WIDEST, k = threadIdx.x % WIDEST, sum = sums[c][k];
    if (sum) atomicAdd(told + (long long)c * (WIDEST + n_levels) + k, sum);
}

// The same of any strips. One thread for any number of rows, blocks of whole warps, any grid.
__global__ void count_strip_rows(int n, int n_levels, int few, int many, const int* level,
                                 const int* strip, const int* indptr, const int* indices, u32* rows,
                                 u32* told) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    u32 far = 0, beyond = 0, crowded = 0;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += threads) {
        const int i = int(at), begin = indptr[i], end = indptr[i + 1], mine = strip[i];
        atomicAdd(rows + (long long)mine * n_levels + level[i], 1u);
        int inside = 0;
        for (int p = begin; p < end; ++p) inside += strip[indices[p]] == mine;
        far += end - begin - inside;
        beyond += inside > few ? inside - few : 0;
        crowded += inside > many;
    }
    const u32 sums[] = {0, warp_sum(far), warp_sum(beyond), warp_sum(crowded)};
    for (int k = FAR_ENTRIES; k < WIDEST; ++k)
        if (threadIdx.x % 32 == 0 && sums[k]) atomicAdd(told + k, sums[k]);
}

constexpr int STRIPS_A_THREAD = 8;

// Of each candidate: STEPS += how many steps its strips are, WIDEST[l] = the largest of rows[t, l] over all
// strips t, which are given one candidate after the other. Zero on entry. One thread for STRIPS_A_THREAD strips of
// a candidate and one level, levels filled up to whole warps, blocks of whole warps.
__global__ void widest_strips(int n_levels, Numbers numbers, const u32* rows, u32* told) {
    const long long warp = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const long long warps = (n_levels + 31) / 32, l = warp % warps * 32 + threadIdx.x % 32;
    long long first = warp / warps * STRIPS_A_THREAD; // of the candidate's
    int c = 0;
    for (; c < MOST_TRIED && numbers.of[c] <= first; ++c) {
        const long long groups = (numbers.of[c] + STRIPS_A_THREAD - 1) / STRIPS_A_THREAD;
        first -= groups * STRIPS_A_THREAD;
        rows += numbers.of[c] * n_levels;
    }
    if (c == MOST_TRIED) return;
    told += (long long)c * (WIDEST + n_levels);
    u32 most = 0, sum = 0;
    for (long long t = first; t < first + STRIPS_A_THREAD && t < numbers.of[c]; ++t) {
        const u32 here = l < n_levels ? rows[t * n_levels + l] : 0u;
        most = here > most ? here : most;
        sum += (here + STEP_ROWS - 1) / STEP_ROWS;
    }
    if (most) atomicMax(told + WIDEST + l, most);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0 && sum) atomicAdd(told + STEPS, sum);
}

// ---- steps --------------------------------------------------------------------------------------

// The row at position k is level_order[sorted[k]]; begins[k] says whether its strip or level is not
// that of the row before. One thread a row.
__global__ void place_in_strips(int n, const long long* sorted, const int* level_order,
                                const int* level, const int* strip, int* row, int* position,
                                int* begins) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int i = level_order[sorted[k]], before = level_order[sorted[k == 0 ? 0 : k - 1]];
    row[k] = i;
    position[i] = k;
    begins[k] = k == 0 || strip[i] != strip[before] || level[i] != level[before];
}

// first[r] = where run r begins; `run` counts the begins up to each position. One thread a row.
__global__ void note_runs(int n, const int* begins, const int* run, int* first) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n && begins[k]) first[run[k] - 1] = k;
}

// begins[k] = whether a step begins there: every STEP_ROWS rows of a run. One thread a row.
__global__ void cut_runs(int n, const int* run, const int* first, int* begins) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) begins[k] = (k - first[run[k] - 1]) % STEP_ROWS == 0;
}

// begins[k] = whether a run does, in an order that is there. One thread a row.
__global__ void begin_runs(int n, const int* row, const int* level, const int* strip, int* begins) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int i = row[k], before = k == 0 ? -1 : row[k - 1];
    begins[k] = k == 0 || strip[i] != strip[before] || level[i] != level[before];
}

// most[r] = near entries of the row of run r that has most of them. Zero on entry. One thread a row.
__global__ void note_most_near(int n, int K, const u16* near_slot, const int* run, int* most) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    int near = 0;
    while (near < K && near_slot[(long long)k * K + near] != WINDOW) ++near;
    atomicMax(most + run[k] - 1, near);
}

// n such that 2^n lanes are enough for that many near entries.
__device__ inline int shares_for(int most) {
    int n = 0;
    while (SHARE_OF_LANE << n < most) ++n;
    return n;
}

// The same as cut_runs, in steps of so few rows that each has the lanes that its run needs. One thread a
// row.
__global__ void share_runs(int n, const int* run, const int* first, const int* most, int* begins) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int shares = shares_for(most[run[k] - 1]);
    begins[k] = (k - first[run[k] - 1]) % (STEP_ROWS >> shares) == 0;
}

// shares[q] = n of the run of step q; `step` counts the begins up to each position. One thread a row.
__global__ void note_shares(int n, const int* begins, const int* step, const int* run,
                            const int* most, int* shares) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n && begins[k]) shares[step[k] - 1] = shares_for(most[run[k] - 1]);
}

// step_start and step_ptr as `Strips` has them; `step` counts the begins up to each position. One
// thread a row.
__global__ void note_steps(int n, int n_strips, const int* begins, const int* step, const int* row,
                           const int* strip, int* step_start, int* step_ptr) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int mine = strip[row[k]], before = k == 0 ? -1 : strip[row[k - 1]];
    if (begins[k]) step_start[step[k] - 1] = k;
    for (int t = before + 1; t <= mine; ++t) step_ptr[t] = step[k] - 1;
    if (k < n - 1) return;
    step_start[step[k]] = n;
    for (int t = mine + 1; t <= n_strips; ++t) step_ptr[t] = step[k];
}

// ---- near and far entries -----------------------------------------------------------------------

// A triangle and the position of each of its rows.
struct Placed {
    const int *indptr, *indices, *row, *position, *strip, *step_ptr, *step_start;

    // The first position whose value the row at position `at` may find in the window of its block.
    __device__ int first_near(int at) const {
        const int of_strip = step_start[step_ptr[strip[row[at]]]];
        const int of_window = at - (WINDOW - 2 * STEP_ROWS);
        return of_strip > of_window ? of_strip : of_window;
    }
};

constexpr int MOST_NEAR = 16;

// near[at + 1] = how many entries of the row at that position could be near; counts[0] is their sum and
// counts[m] how many rows have m of them or more, m = 1 .. MOST_NEAR. `counts` zero on entry. One
// thread for any number of rows, blocks of whole warps, any grid: each warp adds once.
__global__ void count_near(int n, Placed T, int* near, u32* counts) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    u32 found[MOST_NEAR + 1] = {};
    for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < n; k += threads) {
        const int at = int(k), i = T.row[at], end = T.indptr[i + 1], first = T.first_near(at);
        int here = 0;
        for (int p = T.indptr[i]; p < end; ++p) here += T.position[T.indices[p]] >= first;
        near[at + 1] = here;
        found[0] += u32(here);
#pragma unroll
        for (int m = 1; m <= MOST_NEAR; ++m) found[m] += here >= m;
    }
    const int lane = threadIdx.x & 31;
    u32 mine = 0; // lane m adds found[m]: one access a warp
#pragma unroll
    for (int m = 0; m <= MOST_NEAR; ++m) {
        const u32 sum = warp_sum(found[m]);
        if (lane == m) mine = sum;
    }
    if (lane <= MOST_NEAR) atomicAdd(counts + lane, mine);
}

// From what could be near to how many entries are far, in place. One thread a row.
__global__ void count_far(int n, int K, Placed T, int* near) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const int i = T.row[at], mine = near[at + 1];
    near[at + 1] = T.indptr[i + 1] - T.indptr[i] - (mine < K ? mine : K);
}

// The latest K of the entries that can be near, the latest first; -1 and source -2 where there are
// fewer.
template <int K>
struct Latest {
    int position[K], source[K];

    __device__ Latest() {
#pragma unroll
        for (int k = 0; k < K; ++k) position[k] = -1, source[k] = -2;
    }
    __device__ void take(int at, int p) {
#pragma unroll
        for (int k = 0; k < K; ++k) {
            if (at <= position[k]) continue;
            const int later = position[k], of = source[k];
            position[k] = at, source[k] = p;
            at = later, p = of;
        }
    }
};

// The entries of each row: the latest K in its strip and window are near, the others far, in ascending
// level, as the row needs them. One thread a row; rows are short (trsv/long_rows.py), and nearly
// sorted where rows are numbered along a grid, so that an insertion sort does.
template <int K>
__global__ void split_rows(int n, Placed T, const int* level, const int* far_ptr, u16* near_slot,
                           int* near_source, int* far_position, int* far_source) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const int i = T.row[at], begin = T.indptr[i], end = T.indptr[i + 1];
    int first = T.first_near(at);
    Latest<K> near;
    for (int p = begin; p < end; ++p) {
        const int of = T.position[T.indices[p]];
        if (of >= first) near.take(of, p);
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
        const int of = near.position[k];
        near_slot[(long long)at * K + k] = u16(of < 0 ? WINDOW : of % WINDOW);
        near_source[(long long)at * K + k] = near.source[k];
    }
    if (near.position[K - 1] > first) first = near.position[K - 1];
    const int first_far = far_ptr[at];
    int last = first_far, deepest = -1;
    for (int p = begin; p < end; ++p) {
        const int j = T.indices[p], of = T.position[j], mine = level[j];
        if (of >= first) continue;
        int e = last++;
        if (mine >= deepest)
            deepest = mine;
        else
            for (; e > first_far && level[T.indices[far_source[e - 1]]] > mine; --e) {
                far_position[e] = far_position[e - 1];
                far_source[e] = far_source[e - 1];
            }
        far_position[e] = of;
        far_source[e] = p;
    }
}

} // namespace gpuilu
