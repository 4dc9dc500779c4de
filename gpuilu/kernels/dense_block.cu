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
    V mine[R][GROUP<V>], corner[GROUP<V>][GROUP<V>];
};

template <class V, int R>
__device__ void load_group(const V* const (&tile)[R], int g, int lane, Group<V, R>& group) {
#pragma unroll
    for (int j = 1; j < GROUP<V>; ++j) read_row(tile[0], g + j, g, group.corner[j]);
#pragma unroll
    for (int q = 0; q < R; ++q) read_row(tile[q], lane, g, group.mine[q]);
}

// u <- the right-hand side of a group, from the lanes that have its rows.
template <class V, int C>
__device__ void exchange(V (&line)[C][TILE], int g, const V (&s)[C], V (&u)[C][GROUP<V>],
                         int lane) {
    if (lane / GROUP<V> == g / GROUP<V>)
#pragma unroll
        for (int c = 0; c < C; ++c) line[c][lane] = s[c];
    __syncwarp();
#pragma unroll
    for (int c = 0; c < C; ++c) read_line(line[c], g, u[c]);
}

// s -= the group's columns times its x: every lane solves the small triangle by itself.
template <class V, int R, int C>
__device__ void substitute_group(const Group<V, R>& group, V (&u)[C][GROUP<V>], Rest<V, R, C>& s) {
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
        for (int k = 0; k < GROUP<V>; ++k)
#pragma unroll
            for (int j = k + 1; j < GROUP<V>; ++j)
                u[c][j] = minus_product(u[c][j], group.corner[j][k], u[c][k]);
#pragma unroll
    for (int q = 0; q < R; ++q)
#pragma unroll
        for (int c = 0; c < C; ++c)
#pragma unroll
            for (int k = 0; k < GROUP<V>; ++k)
                s[q][c] = minus_product(s[q][c], group.mine[q][k], u[c][k]);
}

// Substitute in tile row r of a panel whose tiles are scaled. A step of the chain is an exchange
// through `line` and one product for each column of a group. The tiles are read a group ahead: `now`
// and u are those of the first group, and at the end `now` is that of the tiles `after`, if there are.
// The barrier of each exchange frees what the group before took from `line`.
template <class V, int R, int C>
__device__ void substitute_scaled(const V* const (&tile)[R], const V* const (&after)[R], bool more,
                                  Group<V, R>& now, V (&u)[C][GROUP<V>], V (&line)[C][TILE],
                                  Rest<V, R, C>& s, int lane) {
    Group<V, R> next;
#pragma unroll
    for (int g = GROUP<V>; g <= TILE; g += GROUP<V>) {
        if (g < TILE)
            load_group(tile, g, lane, next);
        else if (more)
            load_group(after, 0, lane, next);
        substitute_group(now, u, s);
        if (g < TILE) exchange(line, g, s[0], u, lane);
        now = next;
    }
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
__device__ V substitute_entries(const Tiled<F>& T, int I, const V* b, const V* y, int nrhs, int c,
                                Launch launch, Patience& patience, int lane) {
    // An abandoned launch drains with NaN; what it lacked may have come since.
    if (__any_sync(FULL_WARP, load_relaxed(launch.control + ABANDONED) != MARK32))
        return not_a_number<V>();
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

// Where this lane's values of the panel's first tile row go, and how far those of the next are.
template <class V>
struct Places {
    V *y, *x;
    int y_step, x_step;
};

template <class F, class V>
__device__ Places<V> places_of(const Tiled<F>& T, int first_row, V* x, V* y, int nrhs, int c0,
                               int lane) {
    V* const to = x + (long long)T.swapped(first_row * TILE + lane) * nrhs + c0;
    const int step = TILE * nrhs;
    return {y + ((long long)first_row * nrhs + c0) * TILE + lane, to, step, T.lower ? step : -step};
}

// Hand out x of tile row r of a panel. Where a value is not finite, zeros of the tiles may have been
// multiplied with it or with what it came from: that column ends here, with `clean` tile rows.
template <class F, class V, int C>
__device__ void hand_out(const Tiled<F>& T, int first_row, int r, const V (&value)[C],
                         const Places<V>& to, int (&clean)[C], int nrhs, int c0, int lane) {
    const int first = (first_row + r) * TILE;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const bool fine = __all_sync(FULL_WARP, is_finite(value[c]));
        if (!fine || clean[c] != r || first >= T.n || c0 + c >= nrhs) continue;
        ++clean[c];
        publish(to.y + c * TILE, value[c]);
        if (first + lane < T.n) to.x[c] = value[c];
    }
}

// Solve the tile rows of a panel from `begin` on for one column, entry by entry.
template <class F, class V, int R>
__device__ __noinline__ void solve_by_entries(Tiled<F> T, int first_row, int begin, const V* b,
                                              V* x, V* y, int nrhs, int c, Launch launch,
                                              int lane) {
    Patience patience;
    for (int I = first_row + begin; I < first_row + R && I * TILE < T.n; ++I) {
        const V value = substitute_entries(T, I, b, y, nrhs, c, launch, patience, lane);
        publish(y + ((long long)I * nrhs + c) * TILE + lane, value);
        const int position = I * TILE + lane;
        if (position < T.n) x[(long long)T.swapped(position) * nrhs + c] = value;
        note_progress(launch, lane);
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

// The tile row below, if there is, becomes the first.
template <class V, int R, int C>
__device__ void move_up(Rest<V, R, C>& s) {
#pragma unroll
    for (int q = 0; q + 1 < R; ++q)
#pragma unroll
        for (int c = 0; c < C; ++c) s[q][c] = s[q + 1][c];
}

// Substitute through a panel whose right-hand side, less what is left of the panel, is s, and whose
// tiles are scaled. A tile row is handed out after the chain has gone on to the next one. Tile rows
// beyond the last one have zeros for tiles: no branch leaves the chain.
template <class F, class V, int R, int C>
__device__ void substitute(const Tiled<F>& T, int first_row, Panel<V, R, C>& panel,
                           Group<V, R> group, Rest<V, R, C>& s, Places<V> to, int (&clean)[C],
                           int nrhs, int c0, int lane) {
    auto& line = panel.line[CHAIN_WARP];
    V u[C][GROUP<V>];
    exchange(line, 0, s[0], u, lane);
#pragma unroll(C == 1 ? R : 1)
    for (int r = 0; r < R; ++r, to.x += to.x_step, to.y += to.y_step) {
        const V *tile[R], *after[R];
        find_column(panel, r, tile);
        if (r + 1 < R) find_column(panel, r + 1, after);
        const V reciprocal = panel.reciprocal[r * TILE + lane];
        substitute_scaled<V, R, C>(tile, after, r + 1 < R, group, u, line, s, lane);
        V value[C];
#pragma unroll
        for (int c = 0; c < C; ++c) value[c] = times(s[0][c], reciprocal);
        move_up<V, R, C>(s);
        if (r + 1 < R) exchange(line, 0, s[0], u, lane);
        hand_out(T, first_row, r, value, to, clean, nrhs, c0, lane);
    }
}

// The same with tiles as they are.
template <class F, class V, int R, int C>
__device__ void divide(const Tiled<F>& T, int first_row, Panel<V, R, C>& panel, Rest<V, R, C>& s,
                       Places<V> to, int (&clean)[C], int nrhs, int c0, int lane) {
#pragma unroll 1
    for (int r = 0; r < R; ++r, to.x += to.x_step, to.y += to.y_step) {
        const V* tile[R];
        find_column(panel, r, tile);
        const V d = diagonal_at<V>(T, (first_row + r) * TILE + lane);
        substitute_divided<V, R, C>(tile, d, s, lane);
        V value[C];
#pragma unroll
        for (int c = 0; c < C; ++c) value[c] = over(s[0][c], d);
        hand_out(T, first_row, r, value, to, clean, nrhs, c0, lane);
        move_up<V, R, C>(s);
    }
}

template <class F, class V, int R, int C>
__device__ void solve_panel(const Tiled<F>& T, int first_row, Panel<V, R, C>& panel, bool scaled,
                            const Group<V, R>& group, Rest<V, R, C>& s, const V* b, V* x, V* y,
                            int nrhs, int c0, Launch launch, int lane) {
    const Places<V> to = places_of(T, first_row, x, y, nrhs, c0, lane);
    int clean[C];
#pragma unroll
    for (int c = 0; c < C; ++c) clean[c] = 0;
    if (scaled)
        substitute(T, first_row, panel, group, s, to, clean, nrhs, c0, lane);
    else
        divide(T, first_row, panel, s, to, clean, nrhs, c0, lane);
#pragma unroll
    for (int c = 0; c < C; ++c)
        if (clean[c] < R && c0 + c < nrhs)
            solve_by_entries<F, V, R>(T, first_row, clean[c], b, x, y, nrhs, c0 + c, launch, lane);
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
