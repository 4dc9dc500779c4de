// The pattern of A^T by counting: histogram, (prefix sums between the launches,) scatter, rank.
#include "entries.cuh"
#include "sync.cuh"

namespace gpuilu {

// counts[j] = number of entries in column j; zero on entry. One thread an entry.
__global__ void count_columns(int nnz, const int* indices, u32* counts) {
    const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (p < nnz) add_relaxed(counts + indices[p], 1u);
}

constexpr int LANES = 8; // that share a row

// Put (row, position) of every entry into its column, in any order; fill[j] is where column j begins
// and ends up where it ends. LANES threads a row.
__global__ void scatter_entries(int n, const int* indptr, const int* indices, u32* fill,
                                u64* scattered) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long i = thread / LANES;
    if (i >= n) return;
    for (int p = indptr[i] + int(thread % LANES); p < indptr[i + 1]; p += LANES)
        scattered[atomicAdd(fill + indices[p], 1u)] = u64(i) << 32 | u32(p);
}

// The entries of every column in ascending order: an entry's place is the number of smaller ones.
// One thread an entry, which reads its whole column: for columns that are not too long.
__global__ void rank_entries(int nnz, const int* indices, const int* t_indptr, const u64* scattered,
                             int* t_indices, int* position) {
    const long long q = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= nnz) return;
    const u64 mine = scattered[q];
    const int j = indices[u32(mine)], begin = t_indptr[j], end = t_indptr[j + 1];
    int place = begin;
    for (int r = begin; r < end; ++r) place += scattered[r] < mine;
    t_indices[place] = int(mine >> 32);
    position[place] = int(u32(mine));
}

// Column k of the result is column order[k] of T (k without `order`): its values, found in the rows of T.
// `rows` are rows of T or, if `by_position`, their places in `order`. One warp a column.
template <class F>
__global__ void column_values(int n, const int* order, int by_position, const int* column_ptr,
                              const int* rows, const int* indptr, const int* indices, const F* data,
                              F* result) {
    const long long k = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (k >= n) return;
    const int j = order ? order[k] : int(k);
    for (int p = column_ptr[k] + int(threadIdx.x & 31); p < column_ptr[k + 1]; p += 32) {
        const int i = by_position ? order[rows[p]] : rows[p];
        result[p] = entry_at(indptr, indices, data, i, j);
    }
}

} // namespace gpuilu
