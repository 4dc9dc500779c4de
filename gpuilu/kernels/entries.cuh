// t_ij of a triangle in CSR: for plans that keep entries elsewhere and no list of where they came from.
#pragma once

namespace gpuilu {

// The entry at row i, column j, which is there; columns ascend in each row.
template <class F>
__device__ F entry_at(const int* indptr, const int* indices, const F* data, int i, int j) {
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

} // namespace gpuilu
