// T x = b by tile rows of 16, one level of them after the other: `solve_levels`, `solve_diagonals`.
#include "tiles.cuh"

namespace gpuilu {

// y of a tile column, which an earlier level has written.
template <class V>
struct Solved {
    const V* y;
    int nrhs;

    template <int C>
    __device__ void read(int column, int r, int c0, V (&value)[C]) {
#pragma unroll
        for (int c = 0; c < C; ++c)
            value[c] = column >= 0 && c0 + c < nrhs
                           ? y[((long long)column * TILE + r) * nrhs + c0 + c]
                           : V(0);
    }
};

// y = b - (off-diagonal tiles) y for the tile rows of the levels first .. last, and then, if
// `diagonals`, the solve with the diagonal tiles: y and x. Level l has the tile rows order[q],
// q = level_ptr[l] .. level_ptr[l + 1]. One warp a tile row, C right-hand sides at once; any grid of
// blocks of whole warps for one level, one block for several; b may be x.
//
// Ordering: tile rows of one level do not depend on each other. Between levels stands the end of the
// launch, or the block's barrier, which orders what its threads wrote before it. b_i is read and x_i
// written by the lane that owns row i, in this order. Nothing waits otherwise.
// Source: Lu and Liu 2023, algorithm 6; runs of narrow levels share a launch.
template <class F, class V, int C>
__global__ void __launch_bounds__(256)
    solve_levels(Tiles<F> T, const int* order, const int* level_ptr, int first, int last,
                 int diagonals, const V* b, V* x, V* y, int nrhs) {
    const int lane = threadIdx.x & 31, warps = gridDim.x * blockDim.x / 32;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    Solved<V> source{y, nrhs};
    for (int level = first; level < last; ++level) {
        if (level > first) __syncthreads();
        for (int q = level_ptr[level] + warp; q < level_ptr[level + 1]; q += warps) {
            const int tile_row = order[q], position = tile_row * TILE + lane % TILE;
            Cursor at = begin_tile_row(T, tile_row);
            const Tile diagonal = take_diagonal(T, tile_row, at);
            DiagonalRow<F> mine;
            load_diagonal(T, diagonal, tile_row, lane, mine);
            for (int c0 = 0; c0 < nrhs; c0 += C) {
                V s[C];
                load_b(b, mine.row, nrhs, c0, lane, s);
                subtract_tiles(T, at, source, c0, lane, s);
                if (diagonals) solve_diagonal(T, mine, s);
#pragma unroll
                for (int c = 0; c < C; ++c) {
                    if (lane >= TILE || c0 + c >= nrhs) continue;
                    y[(long long)position * nrhs + c0 + c] = s[c];
                    if (diagonals && mine.row >= 0) x[(long long)mine.row * nrhs + c0 + c] = s[c];
                }
            }
        }
    }
}

// The thread-level solve with the diagonal tiles of the tile rows order[begin .. end]: y holds
// b - (off-diagonal tiles) y and is overwritten by the solution, which goes to x too. One thread for
// each tile row and right-hand side; every thread reads and writes places of its own alone.
// Source: Lu and Liu 2023, algorithm 4.
template <class F, class V>
__global__ void solve_diagonals(int n_threads, Tiles<F> T, const int* order, int begin, V* x, V* y,
                                int nrhs) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= n_threads) return;
    const int tile_row = order[begin + thread / nrhs], c = thread % nrhs;
    V* mine = y + (long long)tile_row * TILE * nrhs + c;
    Cursor at = begin_tile_row(T, tile_row);
    const Tile diagonal = take_diagonal(T, tile_row, at);
    for (int r = 0; r < TILE; ++r) {
        const int position = tile_row * TILE + r, row = T.row[position];
        const TileRow found = find_row(T, diagonal, r);
        V s = mine[(long long)r * nrhs];
        for (int e = 0; found.present >> e & 1u; ++e) {
            const Entry t = entry(T, diagonal, found, r, e);
            s = minus_product(s, V(T.data[t.value]), mine[(long long)t.column * nrhs]);
        }
        s = divided(T, row, T.scale == nullptr ? F(1) : T.scale[position], s);
        mine[(long long)r * nrhs] = s;
        if (row >= 0) x[(long long)row * nrhs + c] = s;
    }
}

} // namespace gpuilu
