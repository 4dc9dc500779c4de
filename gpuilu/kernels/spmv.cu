// y = d z + w (alpha b + beta A x): products of a matrix with a vector, and what is added to them.
#include "sync.cuh"

namespace gpuilu {

template <class V>
struct Rows {
    int n;
    const int *indptr, *indices;
    const V* data;
};

// What stands beside A x. A null w or d is a vector of ones; a null b or z is absent.
template <class V>
struct Terms {
    const V *b, *w, *d, *z;
};

template <class V>
__device__ V combined(const Terms<V>& terms, Real<V> alpha, Real<V> beta, V product, int i) {
    V y = times(product, beta);
    if (terms.b) y = plus(times(terms.b[i], alpha), y);
    if (terms.w) y = times(terms.w[i], y);
    if (!terms.z) return y;
    const V z = terms.z[i];
    return plus(terms.d ? times(terms.d[i], z) : z, y);
}

// The sum of `mine` over the G lanes of a row, in an order that depends on G alone.
template <int G, class V>
__device__ V over_lanes(V mine) {
#pragma unroll
    for (int o = G / 2; o > 0; o /= 2) mine = plus(mine, shuffle_xor(FULL_WARP, mine, o));
    return mine;
}

// y_i = d_i z_i + w_i (alpha b_i + beta (A x)_i). G lanes a row; any grid of whole warps with a
// group of lanes for each row. x and y do not overlap; b, z and y may be one array, since only the
// lane that writes y_i reads b_i and z_i.
// Nothing waits, and no word is written twice: there is nothing to order.
// Source: Bell and Garland, Implementing sparse matrix-vector multiplication on throughput-oriented
// processors, SC 2009 (the vector kernel, here with as many lanes as a row has entries).
template <class V, int G>
__global__ void __launch_bounds__(256)
    row_products(Rows<V> A, const V* x, Real<V> alpha, Real<V> beta, Terms<V> terms, V* y) {
    const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const long long i = thread / G;
    const int lane = int(thread % G);
    V negative(0);
    if (i < A.n)
        for (int p = A.indptr[i] + lane, end = A.indptr[i + 1]; p < end; p += G)
            negative = minus_product(negative, A.data[p], x[A.indices[p]]);
    negative = over_lanes<G>(negative);
    if (i < A.n && lane == 0) y[i] = combined(terms, alpha, -beta, negative, int(i));
}

// The same for a dense n x m matrix by rows, one warp a row.
template <class V>
__global__ void __launch_bounds__(256)
    dense_products(int n, int m, const V* A, const V* x, Real<V> alpha, Real<V> beta,
                   Terms<V> terms, V* y) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    V negative(0);
    if (i < n)
        for (int j = lane; j < m; j += 32)
            negative = minus_product(negative, A[(long long)i * m + j], x[j]);
    negative = over_lanes<32>(negative);
    if (i < n && lane == 0) y[i] = combined(terms, alpha, -beta, negative, i);
}

} // namespace gpuilu
