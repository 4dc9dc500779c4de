// Checks of CSR matrices, and copies of runs of rows: kernels without waiting, one thread a row.
#include "sync.cuh"

namespace gpuilu {

// found[0]: smallest row whose extent is broken; found[1]: smallest row with a column out of range;
// found[2]: not all ones if some row is unsorted or has a duplicate. All ones on entry.
// diagonal[i]: position of the entry (i, i), or -1.
template <class I>
__global__ void scan_rows(int n, long long nnz, int n_minor, const I* indptr, const I* indices,
                          int* diagonal, u32* found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long begin = indptr[i], end = indptr[i + 1];
    diagonal[i] = -1;
    if (begin < 0 || end < begin || end > nnz) return report_row(found, i);
    long long previous = -1;
    for (long long p = begin; p < end; ++p) {
        const long long j = indices[p];
        if (j < 0 || j >= n_minor) return report_row(found + 1, i);
        if (j <= previous) report_row(found + 2, i);
        if (j == i) diagonal[i] = int(p);
        previous = j;
    }
}

// Row i of the result is the run of `source` that begins at first[i]: result[indptr[i] + k] =
// source[first[i] + k]. One warp a row.
template <class V>
__global__ void gather_rows(int n, const int* indptr, const int* first, const V* source,
                            V* result) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (i >= n) return;
    const int begin = indptr[i], end = indptr[i + 1], from = first[i];
    for (int p = begin + (threadIdx.x & 31); p < end; p += 32) result[p] = source[from + p - begin];
}

// The same with one thread a row: for short rows.
template <class V>
__global__ void gather_short_rows(int n, const int* indptr, const int* first, const V* source,
                                  V* result) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int begin = indptr[i], end = indptr[i + 1], from = first[i];
    for (int p = begin; p < end; ++p) result[p] = source[from + p - begin];
}

// found[0]: smallest row with an entry that is not finite; all ones on entry. diag may be null.
template <class V>
__global__ void first_not_finite(int n, const int* indptr, const V* data, const V* diag,
                                 u32* found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool finite = diag == nullptr || is_finite(diag[i]);
    for (int p = indptr[i]; p < indptr[i + 1]; ++p) finite = finite && is_finite(data[p]);
    if (!finite) report_row(found, i);
}

// found[0]: not all ones if some |a_ij - conj(a_ji)| > tolerance (|a_ij| + |a_ji|).
template <class V>
__global__ void differs_from_adjoint(int n, const int* indptr, const int* indices, const V* data,
                                     Real<V> tolerance, u32* found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int p = indptr[i]; p < indptr[i + 1]; ++p) {
        const int j = indices[p];
        int low = indptr[j], high = indptr[j + 1];
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (indices[middle] < i)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == indptr[j + 1] || indices[low] != i) return report_row(found, i);
        const V a = data[p], b = conjugate(data[low]);
        const Real<V> half = Real<V>(0.5); // because a - b may overflow
        const Real<V> difference = magnitude(plus(times(a, half), times(b, -half)));
        const Real<V> size = magnitude(a) * half + magnitude(b) * half;
        if (!(difference <= tolerance * size)) return report_row(found, i);
    }
}

} // namespace gpuilu
