// T x = b by columns, the columns of one level in one launch: `level_columns`.
#include "substitution.cuh"

namespace gpuilu {

// x_j <- x_j / t_jj, then x_i <- x_i - t_ij x_j for all i, for the columns j at positions first ..
// last - 1, which are one level; row-major (n, nrhs). T by columns, these in level order. One warp a
// column; ONE: nrhs is 1. As many blocks of whole warps, 256 threads at most, as give each column a
// warp.
//
// Ordering: levels below are earlier launches on the same stream, and no column of a level is changed by
// another. Nothing waits; the order of the terms varies.
// Source: Li (2017), algorithm 2 and kernel LEVC.
template <class F, class V, bool ONE>
__global__ void __launch_bounds__(256)
    level_columns(Matrix<F> T, V* x, int nrhs, int first, int last) {
    const int lane = threadIdx.x & 31, group = lanes_an_entry<ONE>(nrhs);
    const long long position = first + ((long long)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (position >= last) return;
    Column<F> mine;
    load_extent(T, position, mine);
    load_entries(T, group, lane, mine);
    eliminate_column<ONE>(T, mine, x, nrhs, group, false, lane);
}

} // namespace gpuilu
