// T x = b by tile rows of 16, each as soon as the tiles it reads are solved: `solve_tile_rows`.
#include "tiles.cuh"

namespace gpuilu {

// y of a tile column, each value awaited by the lane that has its row.
template <class V>
struct Awaited {
    const V* y;
    int nrhs, lane;
    Launch launch;
    Patience patience;

    template <int C>
    __device__ void read(int column, int r, int c0, V (&value)[C]) {
        const V* slot[C];
        u32 wanted = 0;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            slot[c] = y + ((long long)column * TILE + r) * nrhs + c0 + c;
            if (column >= 0 && c0 + c < nrhs) wanted |= 1u << c;
        }
        await(slot, wanted, value, launch, patience, lane);
    }
};

// Solve T x = b, row-major (n, nrhs); b may be x. y, by position and marked "not ready", carries the
// values from tile to tile. One warp a tile row, C right-hand sides at once. Any grid of blocks of
// whole warps; 256 threads at most.
//
// Ordering: y_c is read by relaxed polls until the mark is gone; the word is the value, written once
// by one relaxed store, so no other memory is communicated and no fence is needed. b_i is read and
// x_i written by the lane that owns row i, in this order, and by no other: b may be x.
// Progress: tile rows are taken by ticket in ascending order, and tiles lie on or left of the
// diagonal, so what a tile row waits for belongs to smaller tickets, whose holders are running.
// Every position of a tile row is published, padding too, so that none is waited for in vain.
// Source: Lu and Liu 2023, algorithm 7, by rows instead of columns: then sums need no atomics and
// always come in one order. The diagonal tile is solved by the warp, not by one of its threads.
template <class F, class V, int C>
__global__ void __launch_bounds__(256)
    solve_tile_rows(Tiles<F> T, const V* b, V* x, V* y, int nrhs, Launch launch) {
    const int lane = threadIdx.x & 31;
    Awaited<V> source{y, nrhs, lane, launch, Patience()};
    while (true) {
        u32 task = lane == 0 ? take_ticket(launch) : 0;
        task = __shfl_sync(FULL_WARP, task, 0);
        if (task >= u32(T.n_tile_rows)) return;
        const int position = int(task) * TILE + lane % TILE;
        Cursor at = begin_tile_row(T, int(task));
        const Tile diagonal = take_diagonal(T, int(task), at);
        DiagonalRow<F> mine;
        load_diagonal(T, diagonal, int(task), lane, mine);
        for (int c0 = 0; c0 < nrhs; c0 += C) {
            V s[C];
            load_b(b, mine.row, nrhs, c0, lane, s);
            subtract_tiles(T, at, source, c0, lane, s);
            solve_diagonal(T, mine, s);
#pragma unroll
            for (int c = 0; c < C; ++c) {
                if (lane >= TILE || c0 + c >= nrhs) continue;
                publish(y + (long long)position * nrhs + c0 + c, s[c]);
                if (mine.row >= 0) x[(long long)mine.row * nrhs + c0 + c] = s[c];
            }
        }
    }
}

} // namespace gpuilu
