// T x = b by rows, the rows of one level in one launch: `level_rows`.
#include "substitution.cuh"

namespace gpuilu {

// Solve the rows at positions first .. last - 1 of the level order, which are one level; row-major (n,
// nrhs), b may be x. One warp a row, C right-hand sides at once; as many blocks of whole warps, 256
// threads at most, as give each row a warp.
//
// Ordering: levels below are earlier launches on the same stream. Nothing waits.
// Source: Li (2017), algorithm 1 and kernel LEVR.
template <class F, class V, int C>
__global__ void __launch_bounds__(256)
    level_rows(Matrix<F> T, const V* b, V* x, int nrhs, int first, int last) {
    const int lane = threadIdx.x & 31;
    const long long position = first + ((long long)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (position >= last) return;
    Row<F, V, C> mine;
    mine.row = T.order[position];
    mine.begin = T.indptr[mine.row];
    mine.end = T.indptr[mine.row + 1];
    load_entries(T, b, nrhs, lane, mine);
    substitute_row(T, mine, b, x, nrhs, false, lane);
}

} // namespace gpuilu
