// Small kernels, right and wrong, for the tests of the emulator itself. Block 0 hands data[0] to the
// other blocks (or a lane to other lanes); `out` gets what they found. FAULT 0 is right.
#include "sync.cuh"

namespace gpuilu {

// By release and acquire. 1: relaxed store; 2: relaxed load; 3: plain flag; 4: __ldg of the data.
template <int FAULT>
__global__ void by_release(u32* data, u32* flag, u32* out) {
    if (blockIdx.x == 0) {
        data[0] = 42;
        if (FAULT == 1)
            store_relaxed(flag, 1u);
        else if (FAULT == 3)
            *flag = 1;
        else
            store_release(flag, 1u);
        return;
    }
    while ((FAULT == 2 ? load_relaxed(flag) : load_acquire(flag)) != 1u) {
    }
    out[blockIdx.x] = FAULT == 4 ? __ldg(data) : data[0];
}

// Lane 5 stores, lane 0 releases. 1: no __syncwarp in between; 2: a vote in between.
template <int FAULT>
__global__ void by_warp(u32* data, u32* flag, u32* out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 5) data[0] = 42;
        if (FAULT == 0) __syncwarp();
        if (FAULT == 2) __any_sync(FULL_WARP, 1);
        if (threadIdx.x == 0) store_release(flag, 1u);
        return;
    }
    while (load_acquire(flag) != 1u) {
    }
    if (threadIdx.x == 0) out[blockIdx.x] = data[0];
}

// By fences and relaxed accesses. 1: no fence before the store; 2: none after the load;
// 3: a fence of the block only.
template <int FAULT>
__global__ void by_fence(u32* data, u32* flag, u32* out) {
    if (blockIdx.x == 0) {
        data[0] = 42;
        if (FAULT == 3)
            __threadfence_block();
        else if (FAULT != 1)
            __threadfence();
        store_relaxed(flag, 1u);
        return;
    }
    while (load_relaxed(flag) != 1u) {
    }
    if (FAULT != 2) __threadfence();
    out[blockIdx.x] = data[0];
}

// Two relaxed words that mean something only together: no race, but the second may be old.
template <int FAULT>
__global__ void two_words(u32* data, u32* flag, u32* out) {
    if (blockIdx.x == 0) {
        store_relaxed(data, 42u);
        if (FAULT)
            store_relaxed(flag, 1u);
        else
            store_release(flag, 1u);
        return;
    }
    while (load_acquire(flag) != 1u) {
    }
    out[blockIdx.x] = load_relaxed(data);
}

// The last block to finish adds up, by atomics. 1: no fence before the count.
template <int FAULT>
__global__ void last_block(u32* data, u32* count, u32* out) {
    data[blockIdx.x] = blockIdx.x;
    if (FAULT == 0) __threadfence();
    if (atomicAdd(count, 1u) + 1u != gridDim.x) return;
    __threadfence();
    for (u32 k = 0; k < gridDim.x; ++k) out[0] += data[k];
}

// Lanes hand values to their neighbours through shared memory. 1: no __syncwarp; 2: a vote instead;
// 3: __syncwarp over half of the lanes only.
template <int FAULT>
__global__ void neighbours(u32* out) {
    __shared__ u32 slot[32];
    const u32 lane = threadIdx.x;
    slot[lane] = 3 * lane;
    if (FAULT == 0) __syncwarp();
    if (FAULT == 2) __any_sync(FULL_WARP, 1);
    if (FAULT == 3) __syncwarp(lane < 16 ? 0x0000ffffu : 0xffff0000u);
    out[lane] = slot[(lane + 1) % 32];
}

// The same through dynamic shared memory and __syncthreads. 1: none; 2: reached by half a warp,
// while the other half waits for it elsewhere.
template <int FAULT>
__global__ void neighbour_threads(u32* out) {
    extern __shared__ u32 place[];
    const u32 t = threadIdx.x;
    place[t] = 3 * t;
    if (FAULT == 0 || (FAULT == 2 && t % 32 < 16)) __syncthreads();
    if (FAULT == 2) __syncwarp();
    out[t] = place[FAULT == 2 ? t : (t + 1) % blockDim.x];
}

// Votes and shuffles. 1: a lane named has exited; 2: the caller is not named; 3: lanes vote and
// shuffle at the same time; 4: read from a lane that the mask does not name; 5: a lane is missing.
template <int FAULT>
__global__ void votes(u32* out) {
    const u32 lane = threadIdx.x;
    if (FAULT == 1 && lane == 7) return;
    if (FAULT == 2) __any_sync(0x0000ffffu, 1);
    if (FAULT == 3 && lane % 2) __ballot_sync(FULL_WARP, 1);
    if (FAULT == 4 && lane < 16) out[lane] = __shfl_xor_sync(0x0000ffffu, lane, 16);
    if (FAULT == 4) return;
    out[lane] = __shfl_down_sync(FULL_WARP, lane, 1) + __popc(__ballot_sync(FULL_WARP, lane % 2));
}

// Block k waits for block k - 1. 0: blocks numbered as they come; 1: as they are launched.
template <int FAULT>
__global__ void in_turn(u32* ticket, u32* flag, u32* out) {
    const u32 mine = FAULT ? blockIdx.x : atomicAdd(ticket, 1u);
    if (mine > 0)
        while (load_acquire(flag + mine - 1) != 1u) {
        }
    out[mine] = mine ? out[mine - 1] + 1 : 1;
    store_release(flag + mine, 1u);
}

// 0: within; 1: beyond the end; 2: before the beginning; 3: shared memory never written.
template <int FAULT>
__global__ void bounds(u32* out) {
    __shared__ u32 slot[2];
    if (FAULT != 3) slot[0] = 1;
    out[FAULT == 1 ? 32 : FAULT == 2 ? -1 : 0] = slot[0];
}

} // namespace gpuilu
