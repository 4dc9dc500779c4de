// T x = b in dense 32x32 tiles, panels of tile rows solved by one thread block: `solve_panels`.
#include "dense_tiles.cuh"

namespace gpuilu {

// What is left of a panel's right-hand side: s[q] of its tile row r + q, while r is being solved.
template <class V, int R, int C>
using Rest = V[R][C];

// s <- b less what is left of the panel: the sum of the warps' parts.
template <class V, int R, int C>
__device__ void add_parts(const Panel<V, R, C>& panel, Rest<V, R, C>& s, int lane) {
    constexpr int SHARES = LEFT_WARPS / R;
#pragma unroll
    for (int q = 0; q < R; ++q)
#pragma unroll
        for (int c = 0; c < C; ++c) {
            s[q][c] = panel.line[q * SHARES][c][lane];
#pragma unroll
            for (int h = 1; h < SHARES; ++h)
                s[q][c] = plus(s[q][c], panel.line[q * SHARES + h][c][lane]);
        }
}

// What substitution by a group of columns needs of the tiles: of this lane's row in tile row r + q, and
// of the rows of the group.
template <class V, int R>
struct Group {
    V mine[R][GROUP], corner[GROUP][GROUP];
};

template <class V, int R>
__device__ void load_group(const V* const (&tile)[R], int g, int lane, Group<V, R>& group) {
#pragma unroll
    for (int j = 1; j < GROUP; ++j) read_row(tile[0], g + j, g, group.corner[j]);
#pragma unroll
    for (int q = 0; q < R; ++q) read_row(tile[q], lane, g, group.mine[q]);
}

// Substitute in tile row r of a panel whose tiles are scaled. A step of the chain is an exchange
// through `line` and one product for each column of a group: every lane solves the group's small
// triangle by itself. The tiles are read a group ahead, the first group before the call.
template <class V, int R, int C>
__device__ void substitute_scaled(const V* const (&tile)[R], Group<V, R>& now, V (&line)[C][TILE],
                                  Rest<V, R, C>& s, int lane) {
    Group<V, R> next;
#pragma unroll
    for (int g = 0; g < TILE; g += GROUP) {
        if (lane / GROUP == g / GROUP)
#pragma unroll
            for (int c = 0; c < C; ++c) line[c][lane] = s[0][c];
        __syncwarp();
        V u[C][GROUP];
#pragma unroll
        for (int c = 0; c < C; ++c) read_line(line[c], g, u[c]);
        if (g + GROUP < TILE) load_group(tile, g + GROUP, lane, next);
#pragma unroll
        for (int c = 0; c < C; ++c)
#pragma unroll
            for (int k = 0; k < GROUP; ++k)
#pragma unroll
                for (int j = k + 1; j < GROUP; ++j)
                    u[c][j] = minus_product(u[c][j], now.corner[j][k], u[c][k]);
#pragma unroll
        for (int q = 0; q < R; ++q)
#pragma unroll
            for (int c = 0; c < C; ++c)
#pragma unroll
                for (int k = 0; k < GROUP; ++k)
                    s[q][c] = minus_product(s[q][c], now.mine[q][k], u[c][k]);
        if (g + GROUP < TILE) now = next;
    }
    __syncwarp(); // the line is free again
}

// The same with tiles as they are: the division is part of every step.
template <class V, int R, int C>
__device__ void substitute_divided(const V* const (&tile)[R], V d, Rest<V, R, C>& s, int lane) {
#pragma unroll 1
    for (int k = 0; k < TILE; ++k) {
        V u[C];
#pragma unroll
        for (int c = 0; c < C; ++c) u[c] = shuffle(FULL_WARP, over(s[0][c], d), k, 32);
#pragma unroll
        for (int q = 0; q < R; ++q) {
            const V t = tile[q][place_of<V>(lane, k)];
#pragma unroll
            for (int c = 0; c < C; ++c) s[q][c] = minus_product(s[q][c], t, u[c]);
        }
    }
}

// x of one column of tile row I entry by entry, as the triangle stores it: nothing is multiplied that
// is not there.
template <class F, class V>
__device__ __noinline__ V substitute_entries(Tiled<F> T, int I, const V* b, const V* y, int nrhs,
                                             int c, Launch launch, int lane) {
    // An abandoned launch drains with NaN; what it lacked may have come since.
    if (__any_sync(FULL_WARP, load_relaxed(launch.control + ABANDONED) != MARK32))
        return not_a_number<V>();
    Patience patience;
    const int first = I * TILE, row = first + lane < T.n ? T.swapped(first + lane) : -1;
    int left = row < 0 ? 0 : T.indptr[row + 1] - T.indptr[row];
    int p = row < 0 ? 0 : T.lower ? T.indptr[row] : T.indptr[row + 1] - 1;
    const int step = T.lower ? 1 : -1;
    V s = row < 0 ? V(0) : b[(long long)row * nrhs + c];
    while (true) { // what other tile rows give
        const int j = left > 0 ? T.swapped(T.indices[p]) : first;
        const u32 wanted = j < first ? 1u : 0u;
        if (!__any_sync(FULL_WARP, wanted)) break;
        const V* const slot[1] = {y + ((long long)(j / TILE) * nrhs + c) * TILE + j % TILE};
        V value[1];
        await(slot, wanted, value, launch, patience, lane);
        if (!wanted) continue;
        s = minus_product(s, V(T.data[p]), value[0]);
        p += step;
        --left;
    }
    const V d = diagonal_at<V>(T, first + lane);
    for (int k = 0; k < TILE; ++k) {
        const V xk = shuffle(FULL_WARP, T.diag == nullptr ? s : over(s, d), k, 32);
        if (left == 0 || T.swapped(T.indices[p]) != first + k) continue;
        s = minus_product(s, V(T.data[p]), xk);
        p += step;
        --left;
    }
    return T.diag == nullptr ? s : over(s, d);
}

// Hand out x of tile row I. Where a value is not finite, zeros of the tiles may have been multiplied
// with it or with what it came from: that column is solved again, and all that follow in the panel.
template <class F, class V, int C>
__device__ void finish_tile_row(const Tiled<F>& T, int I, V (&value)[C], u32& odd, const V* b, V* x,
                                V* y, int nrhs, int c0, Launch launch, int lane) {
    const int position = I * TILE + lane;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        if (c0 + c >= nrhs) continue;
        if (__any_sync(FULL_WARP, !is_finite(value[c]))) odd |= 1u << c;
        if (odd >> c & 1u) value[c] = substitute_entries(T, I, b, y, nrhs, c0 + c, launch, lane);
        publish(y + ((long long)I * nrhs + c0 + c) * TILE + lane, value[c]);
        if (position < T.n) x[(long long)T.swapped(position) * nrhs + c0 + c] = value[c];
    }
}

// The tiles of column r of a panel. Tile rows that it does not have are worked on in vain, with the
// last one's tile.
template <class V, int R, int C>
__device__ void find_column(const Panel<V, R, C>& panel, int r, const V* (&tile)[R]) {
    const V* first = panel.tile + panel.first_of(r) * TILE_SIZE;
#pragma unroll
    for (int q = 0; q < R; ++q) tile[q] = first + (q < R - r ? q : R - r - 1) * TILE_SIZE;
}

template <class V, int R, int C>
__device__ void load_first_group(const Panel<V, R, C>& panel, int lane, Group<V, R>& group) {
    const V* tile[R];
    find_column(panel, 0, tile);
    load_group(tile, 0, lane, group);
}

// Solve a panel whose right-hand side, less what is left of the panel, is s.
template <class F, class V, int R, int C>
__device__ void solve_panel(const Tiled<F>& T, int first_row, Panel<V, R, C>& panel, bool scaled,
                            Group<V, R>& group, Rest<V, R, C>& s, const V* b, V* x, V* y, int nrhs,
                            int c0, Launch launch, int lane) {
    const V* tile[R];
    find_column(panel, 0, tile);
    u32 odd = 0;
#pragma unroll 1
    for (int r = 0; r < R; ++r) {
        const int I = first_row + r;
        if (I * TILE >= T.n) break;
        const V d = scaled ? panel.reciprocal[r * TILE + lane] : diagonal_at<V>(T, I * TILE + lane);
        if (scaled)
            substitute_scaled<V, R, C>(tile, group, panel.line[CHAIN_WARP], s, lane);
        else
            substitute_divided<V, R, C>(tile, d, s, lane);
        V value[C];
#pragma unroll
        for (int c = 0; c < C; ++c) value[c] = scaled ? times(s[0][c], d) : over(s[0][c], d);
        if (r + 1 < R) {
            find_column(panel, r + 1, tile);
            load_group(tile, 0, lane, group);
        }
        finish_tile_row(T, I, value, odd, b, x, y, nrhs, c0, launch, lane);
#pragma unroll
        for (int q = 0; q + 1 < R; ++q)
#pragma unroll
            for (int c = 0; c < C; ++c) s[q][c] = s[q + 1][c];
    }
    note_progress(launch, lane);
}

// Solve T x = b, row-major (n, nrhs); b may be x. y, by tile row and column and marked "not ready",
// carries the values from panel to panel. One block a panel of R tile rows, LEFT_WARPS / R warps a
// tile row for what is left of the panel, one warp for the panel itself; C right-hand sides at once.
// Any grid of PANEL_THREADS threads with sizeof(Panel<V, R, C>) bytes of dynamic shared memory.
//
// Ordering: y_j is read by relaxed polls until the mark is gone; the word is the value, written once
// by one relaxed store, so no other memory is communicated and no fence is needed. b_i is read before
// a barrier and x_i written after it (or both by one lane of the first warp, in this order): b may be
// x. What the warps of a block share they hand over at barriers.
// Progress: panels are taken by ticket in ascending order and wait only for smaller positions, so for
// panels with smaller tickets, whose blocks are running. The first warp waits for nothing inside its
// panel but for what it has published itself.
// Sums come in one order: those of a tile row by columns in ascending order in each warp's share.
// Source: block substitution; the value as its own ready mark: Dufrechou and Ezzatti 2018.
template <class F, class V, int R, int C>
__global__ void __launch_bounds__(PANEL_THREADS)
    solve_panels(Tiled<F> T, const V* b, V* x, V* y, int nrhs, Launch launch) {
    constexpr int SHARES = LEFT_WARPS / R;
    __shared__ int stored[Panel<V, R, C>::TILES];
    __shared__ u32 ticket;
    auto& panel = *reinterpret_cast<Panel<V, R, C>*>(room());
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int i = warp / SHARES, share = warp % SHARES;
    Patience patience;
    while (true) {
        __syncthreads(); // the panel before is finished
        if (threadIdx.x == 0) ticket = take_ticket(launch);
        __syncthreads();
        const int first_row = int(ticket) * R;
        if (first_row * TILE >= T.n) return;
        find_tiles<F, R>(T, first_row, stored);
        bool safe = invert_diagonal(T, first_row * TILE, panel);
        __syncthreads();
        safe = copy_tiles(T, stored, true, panel) && safe;
        const bool scaled = __syncthreads_and(safe || T.diag == nullptr);
        if (!scaled) copy_tiles(T, stored, false, panel);
        __syncthreads();
        Extent left;
        if (warp != CHAIN_WARP) left = find_left_tiles<F, R>(T, first_row, i, stored);
        for (int c0 = 0; c0 < nrhs; c0 += C) {
            Group<V, R> group;
            Rest<V, R, C> s;
            if (warp == CHAIN_WARP)
                load_first_group(panel, lane, group);
            else
                subtract_left<F, V, R, C>(T, first_row + i, left, share, b, y, nrhs, c0,
                                          panel.line[warp], launch, patience, lane);
            __syncthreads(); // all parts are there
            if (warp == CHAIN_WARP) add_parts(panel, s, lane);
            __syncthreads(); // and free again
            if (warp == CHAIN_WARP)
                solve_panel(T, first_row, panel, scaled, group, s, b, x, y, nrhs, c0, launch, lane);
        }
    }
}

// ---- set-up -------------------------------------------------------------------------------------

// tiles <- the entries of the triangle; their other places keep their zeros. One warp a row.
template <class F>
__global__ void fill_dense_tiles(int threads, Tiled<F> T, F* tiles) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, row = thread >> 5;
    if (thread >= threads) return;
    const int position = T.swapped(row), I = position / TILE;
    for (int p = T.indptr[row] + (thread & 31); p < T.indptr[row + 1]; p += 32) {
        const int column = T.swapped(T.indices[p]);
        int first = T.tile_ptr[I], last = T.tile_ptr[I + 1] - 1;
        while (first < last) {
            const int middle = (first + last) / 2;
            if (T.tile_column[middle] < column / TILE)
                first = middle + 1;
            else
                last = middle;
        }
        const int place = column % TILE * TILE + position % TILE;
        tiles[(long long)first * TILE_SIZE + place] = T.data[p];
    }
}

} // namespace gpuilu
