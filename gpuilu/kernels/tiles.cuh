// s_r -= sum over the 16x16 tiles of a tile row of t_rc y_c, and the solve with its diagonal tile.
//
// A warp takes a tile row, two off-diagonal tiles at a time: half h of the warp has the tiles h,
// h + 2, ... and lane r of a half has row r, so that a row is always summed in the same order. The
// seven formats of an off-diagonal tile differ in one thing only, where a lane finds the entries of
// its row (`find_row`, `entry`). It looks them up and loads their values before it reads y.
// What is not stored is never multiplied: a padded place has an index byte of another row, and a
// dense tile has a mask of 16 bits for each row, so that no zero of ours meets an Inf or NaN in y.
// Source: Lu and Liu 2023 (TileSpTRSV); the formats are those of Niu et al. 2021 (TileSpMV).
#pragma once
#include "sync.cuh"

namespace gpuilu {

using u8 = unsigned char;
constexpr int TILE = 16;
constexpr int FORMAT_SHIFT = 29, EXTENT_SHIFT = 21; // of a tile's word; its column stands below
enum Format { CSR, COO, ELL, HYB, DNS, DNS_ROW, DNS_COL, NO_TILE }; // as in tile_formats.py
constexpr int AHEAD = 8, DIAGONAL_AHEAD = 4; // entries of a lane in registers before it waits

// A strict triangle in tiles. Rows and columns are positions in an order in which every row comes
// after those it depends on; `row` is the row in x of a position, or negative for one that is not
// in x and has b = 0 and a unit diagonal. Tiles of tile row I: tile_ptr[I] .. tile_ptr[I + 1], the
// diagonal tile first, in CSR, and missing if it has no entry (the format DIA). Their values and
// index bytes follow each other from first_value[I] and first_byte[I] on. A tile's word is its format,
// extent and column; `extent` is null, or has the extents where columns need their bits. The extent
// is one less than the number of entries (CSR, COO), the width (ELL, HYB), the number of dense rows
// or columns; HYB has 16 times that, plus the entries beyond the width. `scale` is 1 / diagonal by
// position, or zero where only the division is safe, or null for a unit diagonal; `diag` is in the
// order of x.
template <class F>
struct Tiles {
    int n_tile_rows;
    const int *tile_ptr, *first_value, *first_byte;
    const u32* tile;
    const u8 *extent, *index;
    const int* row;
    const F *data, *scale, *diag;
};

// ---- tiles --------------------------------------------------------------------------------------
struct Tile {
    int format = NO_TILE, column = -1, extent = 0, value = 0, byte = 0;
};

// The tiles of a tile row that are still to come, and where their values and bytes begin.
struct Cursor {
    int next, end, value, byte;
};

__device__ inline int width_of(const Tile& tile) {
    return tile.format == HYB ? tile.extent / TILE + 1 : tile.extent + 1;
}
__device__ inline int values_of(const Tile& tile) {
    if (tile.format <= COO) return tile.extent + 1;
    if (tile.format == DNS) return TILE * TILE;
    return TILE * width_of(tile) + (tile.format == HYB ? tile.extent % TILE : 0);
}
__device__ inline int bytes_of(const Tile& tile) {
    if (tile.format == CSR) return TILE + values_of(tile);
    if (tile.format == DNS) return 2 * TILE;
    return tile.format >= DNS_ROW ? width_of(tile) : values_of(tile);
}

template <class F>
__device__ Cursor begin_tile_row(const Tiles<F>& T, int tile_row) {
    return {T.tile_ptr[tile_row], T.tile_ptr[tile_row + 1], T.first_value[tile_row],
            T.first_byte[tile_row]};
}

template <class F>
__device__ Tile take_tile(const Tiles<F>& T, Cursor& at) {
    Tile tile;
    if (at.next == at.end) return tile;
    const u32 word = T.tile[at.next];
    const bool packed = T.extent == nullptr;
    tile.format = word >> FORMAT_SHIFT;
    tile.column = word & ((1u << (packed ? EXTENT_SHIFT : FORMAT_SHIFT)) - 1);
    tile.extent = packed ? word >> EXTENT_SHIFT & 0xffu : T.extent[at.next];
    ++at.next;
    tile.value = at.value;
    tile.byte = at.byte;
    at.value += values_of(tile);
    at.byte += bytes_of(tile);
    return tile;
}

// The next two tiles, one for each half of the warp.
template <class F>
__device__ Tile take_pair(const Tiles<F>& T, Cursor& at, int lane) {
    const Tile even = take_tile(T, at), odd = take_tile(T, at);
    return lane < TILE ? even : odd;
}

// The diagonal tile, if it has entries; the off-diagonal ones are left.
template <class F>
__device__ Tile take_diagonal(const Tiles<F>& T, int tile_row, Cursor& at) {
    Cursor after = at;
    const Tile first = take_tile(T, after);
    if (first.column != tile_row) return Tile();
    at = after;
    return first;
}

// ---- rows of a tile -----------------------------------------------------------------------------
// Where row r of a tile is: bit e of `present` says whether place e holds an entry. The first `width`
// places stand 16 apart, r being the first; the others follow each other from `tail` on.
struct TileRow {
    int width = 0, tail = 0;
    u32 present = 0;
};

// Entries of row r among `count` index bytes sorted by row, which follow the places of the width.
__device__ inline void scan_bytes(const u8* bytes, int count, int r, TileRow& mine) {
    mine.tail = TILE * mine.width;
    int found = 0;
    for (int k = 0; k < count; ++k) {
        const int row = bytes[k] / TILE;
        mine.tail += row < r;
        found += row == r;
    }
    mine.present |= ((1u << found) - 1) << mine.width;
}

template <class F>
__device__ TileRow find_row(const Tiles<F>& T, const Tile& tile, int r) {
    const u8* bytes = T.index + tile.byte;
    TileRow mine;
    switch (tile.format) {
    case CSR:
        mine.tail = bytes[r];
        mine.present = (1u << ((r + 1 < TILE ? bytes[r + 1] : tile.extent + 1) - mine.tail)) - 1;
        break;
    case COO:
        scan_bytes(bytes, tile.extent + 1, r, mine);
        break;
    case ELL:
    case HYB:
        mine.width = width_of(tile);
        for (int e = 0; e < mine.width; ++e)
            mine.present |= u32(bytes[TILE * e + r] / TILE == r) << e;
        if (tile.format == HYB) scan_bytes(bytes + TILE * mine.width, tile.extent % TILE, r, mine);
        break;
    case DNS:
        mine.width = TILE;
        mine.present = bytes[2 * r] | bytes[2 * r + 1] << 8;
        break;
    case DNS_ROW:
        for (int k = 0; k < width_of(tile); ++k)
            if (bytes[k] == r) mine = TileRow{0, TILE * k, 0xffffu};
        break;
    case DNS_COL:
        mine.width = width_of(tile);
        mine.present = (1u << mine.width) - 1;
        break;
    default:
        break;
    }
    return mine;
}

// Place e of row r, which must be present: the position of its value and its column in the tile.
struct Entry {
    int value, column;
};
template <class F>
__device__ Entry entry(const Tiles<F>& T, const Tile& tile, TileRow mine, int r, int e) {
    const int place = e < mine.width ? TILE * e + r : mine.tail + e - mine.width;
    if (tile.format == DNS || tile.format == DNS_ROW) return {tile.value + place, e};
    const int byte = tile.format == DNS_COL ? e : tile.format == CSR ? TILE + place : place;
    return {tile.value + place, T.index[tile.byte + byte] % TILE};
}

// One past the last place that any lane of the warp has.
__device__ inline int places_of_warp(TileRow mine) {
    u32 present = mine.present;
#pragma unroll
    for (int o = 16; o > 0; o /= 2) present |= __shfl_xor_sync(FULL_WARP, present, o);
    return 32 - __clz(int(present));
}

// ---- off-diagonal tiles -------------------------------------------------------------------------
// A few entries of a lane's row, in registers before y is read. Column -1: no entry.
template <class F>
struct Entries {
    F value[AHEAD];
    int column[AHEAD];
};

template <class F>
__device__ void load_entries(const Tiles<F>& T, const Tile& tile, TileRow mine, int r, int first,
                             Entries<F>& entries) {
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        entries.column[k] = -1;
        if (!(mine.present >> (first + k) & 1u)) continue;
        const Entry found = entry(T, tile, mine, r, first + k);
        entries.column[k] = found.column;
        entries.value[k] = T.data[found.value];
    }
}

// A lane's row of its tile, with its first entries.
template <class F>
struct Part {
    Tile tile;
    TileRow row;
    int places; // of any lane
    Entries<F> entries;
};

template <class F>
__device__ void load_part(const Tiles<F>& T, Cursor& at, int lane, Part<F>& part) {
    part.tile = take_pair(T, at, lane);
    part.row = find_row(T, part.tile, lane % TILE);
    load_entries(T, part.tile, part.row, lane % TILE, 0, part.entries);
    part.places = places_of_warp(part.row);
}

// s -= t_rc y_c for `count` entries of each lane at most, y_c being in lane c of this half.
template <class F, class V, int C>
__device__ void subtract_entries(const Entries<F>& entries, int count, const V (&y)[C], V (&s)[C]) {
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        if (k >= count) break; // the same in every lane
        const int column = entries.column[k];
#pragma unroll
        for (int c = 0; c < C; ++c) {
            const V factor = shuffle(FULL_WARP, y[c], column < 0 ? 0 : column, TILE);
            if (column >= 0) s[c] = minus_product(s[c], V(entries.value[k]), factor);
        }
    }
}

// s -= sum of t_rc y_c over the off-diagonal tiles of a tile row, the two halves added: both have
// the whole sum. `source.read(column, r, c0, y)` gives y_r of a tile column, waiting for it or not;
// everything else about its tile, and the next tile's, is on its way before.
template <class F, class V, int C, class Source>
__device__ void subtract_tiles(const Tiles<F>& T, Cursor at, Source& source, int c0, int lane,
                               V (&s)[C]) {
    const int r = lane % TILE;
    bool here = false, more = at.next < at.end;
    Part<F> part, next;
    while (here || more) {
        if (more) load_part(T, at, lane, next);
        if (here) {
            V y[C];
            source.read(part.tile.column, r, c0, y);
            subtract_entries(part.entries, part.places, y, s);
            for (int e = AHEAD; e < part.places; e += AHEAD) {
                load_entries(T, part.tile, part.row, r, e, part.entries);
                subtract_entries(part.entries, part.places - e, y, s);
            }
        }
        part = next;
        here = more;
        more = at.next < at.end;
    }
#pragma unroll
    for (int c = 0; c < C; ++c) s[c] = plus(s[c], shuffle_xor(FULL_WARP, s[c], TILE));
}

// ---- the diagonal tile --------------------------------------------------------------------------
// s / t_ii; the reciprocal serves only where it is as precise as s.
template <class F, class V>
__device__ V divided(const Tiles<F>& T, int row, F scale, V s) {
    if (T.scale == nullptr || row < 0) return s;
    if (sizeof(F) < sizeof(V) || is_zero(scale)) return over(s, V(T.diag[row]));
    return times(s, V(scale));
}

// A lane's row of the diagonal tile: a bit for each of its columns, its first values, and which
// columns of the tile any row needs.
template <class F>
struct DiagonalRow {
    int row, next, end;
    u32 columns = 0, needed = 0;
    F value[DIAGONAL_AHEAD], scale;
};

template <class F>
__device__ void load_diagonal(const Tiles<F>& T, const Tile& tile, int tile_row, int lane,
                              DiagonalRow<F>& mine) {
    const int r = lane % TILE;
    const TileRow found = find_row(T, tile, r);
    mine = DiagonalRow<F>();
    mine.row = T.row[tile_row * TILE + r];
    if (T.scale != nullptr) mine.scale = T.scale[tile_row * TILE + r];
    const int begin = tile.value + found.tail, length = __popc(found.present);
    mine.next = begin + DIAGONAL_AHEAD;
    mine.end = begin + length;
    for (int e = 0; e < length; ++e) mine.columns |= 1u << entry(T, tile, found, r, e).column;
    mine.needed = mine.columns;
#pragma unroll
    for (int o = TILE / 2; o > 0; o /= 2) mine.needed |= __shfl_xor_sync(FULL_WARP, mine.needed, o);
#pragma unroll
    for (int k = 0; k < DIAGONAL_AHEAD; ++k)
        if (k < length) mine.value[k] = T.data[begin + k];
}

// x_r = (s_r - sum of t_rc x_c) / t_rr, columns in ascending order, each x_c handed from lane c to
// all rows below: the warp-level solve. Both halves do the same.
template <class F, class V, int C>
__device__ void solve_diagonal(const Tiles<F>& T, DiagonalRow<F> mine, V (&s)[C]) {
    for (u32 needed = mine.needed; needed != 0; needed &= needed - 1) {
        const int column = __ffs(needed) - 1;
        const bool has = mine.columns >> column & 1u;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            const V own = divided(T, mine.row, mine.scale, s[c]);
            const V x = shuffle(FULL_WARP, own, column, TILE);
            if (has) s[c] = minus_product(s[c], V(mine.value[0]), x);
        }
        if (!has) continue;
#pragma unroll
        for (int k = 1; k < DIAGONAL_AHEAD; ++k) mine.value[k - 1] = mine.value[k];
        if (mine.next < mine.end) mine.value[DIAGONAL_AHEAD - 1] = T.data[mine.next++];
    }
#pragma unroll
    for (int c = 0; c < C; ++c) s[c] = divided(T, mine.row, mine.scale, s[c]);
}

// b by position, in the first half of the warp; zero elsewhere.
template <class V, int C>
__device__ void load_b(const V* b, int row, int nrhs, int c0, int lane, V (&s)[C]) {
#pragma unroll
    for (int c = 0; c < C; ++c)
        s[c] = lane < TILE && row >= 0 && c0 + c < nrhs ? b[(long long)row * nrhs + c0 + c] : V(0);
}

// ---- values -------------------------------------------------------------------------------------
// The value of t_ij in a strict triangle in CSR, columns ascending; -1 if either is no row of x.
template <class F>
__device__ F value_at(const int* indptr, const int* indices, const F* data, int i, int j) {
    if (i < 0 || j < 0) return F(-1);
    int low = indptr[i], high = indptr[i + 1] - 1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (indices[middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return data[low];
}

// result = the values of a strict triangle, in the places that its tiles have for them. `owner` is
// the row in x whose entries a position has, or negative. One warp a tile row, no waiting.
template <class F>
__global__ void fill_tiles(int n_threads, Tiles<F> T, const int* owner, const int* indptr,
                           const int* indices, const F* data, F* result) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= n_threads) return;
    const int lane = thread % 32, r = lane % TILE, tile_row = thread / 32;
    const int i = owner[tile_row * TILE + r];
    Cursor at = begin_tile_row(T, tile_row);
    while (at.next < at.end) {
        const Tile tile = take_pair(T, at, lane);
        const TileRow mine = find_row(T, tile, r);
        for (u32 left = mine.present; left != 0; left &= left - 1) {
            const Entry found = entry(T, tile, mine, r, __ffs(left) - 1);
            const int j = T.row[tile.column * TILE + found.column];
            result[found.value] = value_at(indptr, indices, data, i, j);
        }
    }
}

} // namespace gpuilu
