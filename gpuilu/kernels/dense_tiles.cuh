// Dense 32x32 tiles of a triangle: those of a panel in shared memory, and products with those left of
// it. What dense_block.cu is made of.
#pragma once
#include "sync.cuh"

namespace gpuilu {

constexpr int TILE = 32; // rows and columns of a tile: a lane has a row
constexpr int TILE_SIZE = TILE * TILE;
constexpr int LEFT_WARPS = 8;          // of a block, for the tiles left of its panel
constexpr int CHAIN_WARP = LEFT_WARPS; // the one that substitutes through the panel
constexpr int PANEL_THREADS = 32 * (LEFT_WARPS + 1);

// Columns of a diagonal tile that every lane solves at once.
template <class V>
constexpr int GROUP = sizeof(V) == 16 ? 2 : 4;

// The triangle, rows and columns by position: their number, or counted from the last one for an upper
// triangle, so that a row depends on smaller positions only. Tile row I has the tiles tile_ptr[I] ..
// tile_ptr[I + 1], columns ascending, each with an entry; `tiles` holds them column by column, zeros
// where the triangle has no entry. The triangle itself serves where zeros may not be multiplied.
template <class F>
struct Tiled {
    int n;
    const int *tile_ptr, *tile_column;
    const F* tiles;
    alignas(8) int lower;
    const int *indptr, *indices;
    const F *data, *diag; // diag is null for a unit diagonal

    __device__ int swapped(int i) const { return lower ? i : n - 1 - i; } // row <-> position
};

// Values that one load from shared memory takes. Tiles of a panel stand there by PACK columns: what a
// lane needs of them lies together.
template <class V>
constexpr int PACK = 16 / int(sizeof(V));

template <class V>
__device__ constexpr int place_of(int row, int column) {
    constexpr int SIZE = PACK<V>;
    return (column / SIZE * TILE + row) * SIZE + column % SIZE;
}

// The values of one row in columns first .. first + K; `first` is a multiple of K.
template <int K, class V>
__device__ void read_row(const V* tile, int row, int first, V (&value)[K]) {
    constexpr int SIZE = PACK<V>;
    static_assert(K % SIZE == 0);
#pragma unroll
    for (int k = 0; k < K; k += SIZE) {
        const auto pack =
            *reinterpret_cast<const Pack<V, SIZE>*>(tile + place_of<V>(row, first + k));
#pragma unroll
        for (int i = 0; i < SIZE; ++i) value[k + i] = pack.v[i];
    }
}

template <int K, class V>
__device__ void read_line(const V (&line)[TILE], int first, V (&value)[K]) {
    constexpr int SIZE = PACK<V>;
#pragma unroll
    for (int k = 0; k < K; k += SIZE) {
        const auto pack = *reinterpret_cast<const Pack<V, SIZE>*>(line + first + k);
#pragma unroll
        for (int i = 0; i < SIZE; ++i) value[k + i] = pack.v[i];
    }
}

// What the warps of a block share. Tile (i, j) of the panel stands at first_of(j) + i - j. `line`
// is a line of 32 values for each warp and column: x of a tile row for its lanes, or its part of a sum.
template <class V, int R, int C>
struct alignas(16) Panel {
    static constexpr int TILES = R * (R + 1) / 2;
    V tile[TILES * TILE_SIZE];
    V line[LEFT_WARPS + 1][C][TILE];
    V reciprocal[R * TILE];

    __device__ static int first_of(int j) { return j * R - j * (j - 1) / 2; }
};

__device__ inline u64* room() {
    extern __shared__ u64 shared_room[];
    return shared_room;
}

// ---- a panel's own tiles ------------------------------------------------------------------------

// Whether a number is far enough from the ends of the range to be scaled without loss.
template <class V>
__device__ bool is_safe(V v) {
    using S = Real<V>;
    const S size = magnitude(v), small = sizeof(S) == 4 ? S(1e-36) : S(1e-300);
    return size > small && size < S(1) / small;
}

template <class V, class F>
__device__ V diagonal_at(const Tiled<F>& T, int position) {
    return T.diag == nullptr || position >= T.n ? V(1) : V(T.diag[T.swapped(position)]);
}

// stored[first_of(j) + i - j]: where tile (i, j) of the panel is among all tiles, or -1.
template <class F, int R>
__device__ void find_tiles(const Tiled<F>& T, int first_row, int (&stored)[R * (R + 1) / 2]) {
    int i = threadIdx.x, j = 0;
    while (j < R && i >= R - j) i -= R - j++;
    if (j >= R) return;
    i += j;
    int found = -1;
    if ((first_row + i) * TILE < T.n) {
        const int begin = T.tile_ptr[first_row + i];
        int t = T.tile_ptr[first_row + i + 1] - 1;
        while (t >= begin && T.tile_column[t] > first_row + j) --t;
        if (t >= begin && T.tile_column[t] == first_row + j) found = t;
    }
    stored[threadIdx.x] = found;
}

// panel.reciprocal = 1 / diagonal; whether a number comes near the ends of the range.
template <class F, class V, int R, int C>
__device__ bool invert_diagonal(const Tiled<F>& T, int first, Panel<V, R, C>& panel) {
    static_assert(R * TILE <= PANEL_THREADS);
    const int k = threadIdx.x;
    if (k >= R * TILE) return true;
    const V d = diagonal_at<V>(T, first + k);
    const V inverse = over(V(1), d);
    panel.reciprocal[k] = inverse;
    return is_safe(d);
}

// Copy the panel's own tiles, their columns divided by the diagonal if `scaled`: then what a column
// is multiplied with is known before the division. Whether that lost nothing.
template <class F, class V, int R, int C>
__device__ bool copy_tiles(const Tiled<F>& T, const int (&stored)[R * (R + 1) / 2], bool scaled,
                           Panel<V, R, C>& panel) {
    bool safe = true;
    for (int j = 0; j < R; ++j)
        for (int slot = panel.first_of(j); slot < panel.first_of(j + 1); ++slot) {
            const int t = stored[slot];
#pragma unroll 4
            for (int e = threadIdx.x; e < TILE_SIZE; e += PANEL_THREADS) {
                const V given = t < 0 ? V(0) : V(T.tiles[(long long)t * TILE_SIZE + e]);
                V value = given;
                if (scaled) value = times(given, panel.reciprocal[j * TILE + e / TILE]);
                if (scaled && !is_zero(given)) safe = safe && is_safe(value);
                panel.tile[slot * TILE_SIZE + place_of<V>(e % TILE, e / TILE)] = value;
            }
        }
    return safe;
}

// ---- tiles left of the panel --------------------------------------------------------------------

// K columns of a tile, in registers before the warp waits.
template <class F, int K>
struct Slice {
    int column;
    F value[K];
};

template <class F, int K>
__device__ void load_slice(const Tiled<F>& T, int t, int first_column, int lane,
                           Slice<F, K>& slice) {
    slice.column = T.tile_column[t];
    const F* value = T.tiles + (long long)t * TILE_SIZE + first_column * TILE + lane;
#pragma unroll
    for (int k = 0; k < K; ++k) slice.value[k] = value[k * TILE];
}

// The values of tile row I that other blocks published, one a lane; 0 beyond the last column.
template <class V, int C>
__device__ void await_tile_row(const V* y, int I, int nrhs, int c0, V (&value)[C], Launch launch,
                               Patience& patience, int lane) {
    const V* slot[C];
    u32 wanted = 0;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        slot[c] = y + ((long long)I * nrhs + c0 + c) * TILE + lane;
        if (c0 + c < nrhs) wanted |= 1u << c;
    }
    await(slot, wanted, value, launch, patience, lane);
}

// s -= columns first .. first + K of the tiles begin .. end times x. Two sums, for a shorter chain.
template <class F, class V, int K, int C>
__device__ void subtract_tiles(const Tiled<F>& T, int begin, int end, int first, const V* y,
                               int nrhs, int c0, V (&line)[C][TILE], V (&s)[C], Launch launch,
                               Patience& patience, int lane) {
    if (begin >= end) return;
    V odd[C];
#pragma unroll
    for (int c = 0; c < C; ++c) odd[c] = V(0);
    Slice<F, K> now, next;
    load_slice(T, begin, first, lane, now);
    for (int t = begin; t < end; ++t) {
        if (t + 1 < end) load_slice(T, t + 1, first, lane, next);
        V value[C];
        await_tile_row(y, now.column, nrhs, c0, value, launch, patience, lane);
#pragma unroll
        for (int c = 0; c < C; ++c) line[c][lane] = value[c];
        __syncwarp();
#pragma unroll
        for (int c = 0; c < C; ++c) {
            V u[K];
            read_line(line[c], first, u);
#pragma unroll
            for (int k = 0; k < K; k += 2) {
                s[c] = minus_product(s[c], V(now.value[k]), u[k]);
                odd[c] = minus_product(odd[c], V(now.value[k + 1]), u[k + 1]);
            }
        }
        __syncwarp(); // the line is free again
        if (t + 1 < end) now = next;
    }
#pragma unroll
    for (int c = 0; c < C; ++c) s[c] = plus(s[c], odd[c]);
}

struct Extent {
    int begin = 0, end = 0;
};

// The tiles left of the panel in its tile row i.
template <class F, int R>
__device__ Extent find_left_tiles(const Tiled<F>& T, int first_row, int i,
                                  const int (&stored)[R * (R + 1) / 2]) {
    Extent left;
    if ((first_row + i) * TILE >= T.n) return left;
    left.begin = T.tile_ptr[first_row + i];
    left.end = T.tile_ptr[first_row + i + 1];
    for (int j = 0; j <= i; ++j)
        if (stored[j * R - j * (j - 1) / 2 + i - j] >= 0) --left.end;
    return left;
}

// line <- this warp's share of b_I - sum of T_IJ x_J over the J left of the panel.
template <class F, class V, int R, int C>
__device__ void subtract_left(const Tiled<F>& T, int I, Extent left, int share, const V* b,
                              const V* y, int nrhs, int c0, V (&line)[C][TILE], Launch launch,
                              Patience& patience, int lane) {
    constexpr int K = TILE * R / LEFT_WARPS;
    const int position = I * TILE + lane;
    V s[C];
#pragma unroll
    for (int c = 0; c < C; ++c) {
        const bool given = share == 0 && position < T.n && c0 + c < nrhs;
        s[c] = given ? b[(long long)T.swapped(position) * nrhs + c0 + c] : V(0);
    }
    subtract_tiles<F, V, K, C>(T, left.begin, left.end, share * K, y, nrhs, c0, line, s, launch,
                               patience, lane);
#pragma unroll
    for (int c = 0; c < C; ++c) line[c][lane] = s[c];
}

} // namespace gpuilu
