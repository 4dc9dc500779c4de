// Ordered accesses to memory, and what else is written in PTX: the one file that is. On the emulator its
// own header stands for it (tests/emulator/native/primitives.h).
#pragma once
#include "scalar.cuh"

namespace gpuilu {

using u32 = unsigned int;
using u64 = unsigned long long;
constexpr u32 FULL_WARP = 0xffffffffu;

#ifndef GPUILU_EMULATOR
__device__ __forceinline__ u32 load_relaxed(const u32* p) {
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ u64 load_relaxed(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void store_relaxed(u32* p, u32 v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void store_relaxed(u64* p, u64 v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// The same on a condition, without a branch.
__device__ __forceinline__ void store_relaxed_if(bool stores, u32* p, u32 v) {
    asm volatile(
        "{.reg .pred s; setp.ne.u32 s, %2, 0; @s st.relaxed.gpu.global.u32 [%0], %1;}" ::"l"(p),
        "r"(v), "r"(u32(stores))
        : "memory");
}
__device__ __forceinline__ void store_relaxed_if(bool stores, u64* p, u64 v) {
    asm volatile(
        "{.reg .pred s; setp.ne.u32 s, %2, 0; @s st.relaxed.gpu.global.u64 [%0], %1;}" ::"l"(p),
        "l"(v), "r"(u32(stores))
        : "memory");
}
// 16 bytes at once, aligned to them; each word is relaxed by itself.
__device__ __forceinline__ void load_relaxed(const u32* p, u32 (&w)[4]) {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "l"(p)
                 : "memory");
}
__device__ __forceinline__ void load_relaxed(const u64* p, u64 (&w)[2]) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(w[0]), "=l"(w[1])
                 : "l"(p)
                 : "memory");
}
__device__ __forceinline__ void store_relaxed_if(bool stores, u32* p, const u32 (&w)[4]) {
    asm volatile("{.reg .pred s; setp.ne.u32 s, %5, 0;"
                 " @s st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};}" ::"l"(p),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(u32(stores))
                 : "memory");
}
__device__ __forceinline__ void store_relaxed_if(bool stores, u64* p, const u64 (&w)[2]) {
    asm volatile("{.reg .pred s; setp.ne.u32 s, %3, 0;"
                 " @s st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};}" ::"l"(p),
                 "l"(w[0]), "l"(w[1]), "r"(u32(stores))
                 : "memory");
}
__device__ __forceinline__ u32 load_acquire(const u32* p) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void store_release(u32* p, u32 v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ u32 load_relaxed_shared(const u32* p) {
    u32 v;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(__cvta_generic_to_shared(p))
                 : "memory");
    return v;
}
__device__ __forceinline__ void store_relaxed_shared(u32* p, u32 v) {
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"l"(__cvta_generic_to_shared(p)), "r"(v)
                 : "memory");
}
__device__ __forceinline__ u64 load_relaxed_shared(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.cta.shared.u64 %0, [%1];"
                 : "=l"(v)
                 : "l"(__cvta_generic_to_shared(p))
                 : "memory");
    return v;
}
__device__ __forceinline__ void store_relaxed_shared(u64* p, u64 v) {
    asm volatile("st.relaxed.cta.shared.u64 [%0], %1;" ::"l"(__cvta_generic_to_shared(p)), "l"(v)
                 : "memory");
}
__device__ __forceinline__ u32 load_acquire_shared(const u32* p) {
    u32 v;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(__cvta_generic_to_shared(p))
                 : "memory");
    return v;
}
__device__ __forceinline__ void store_release_shared(u32* p, u32 v) {
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"l"(__cvta_generic_to_shared(p)), "r"(v)
                 : "memory");
}
// Plain accesses to shared memory by address, for loops in which it may not be computed anew.
using SharedAddress = u32;
__device__ __forceinline__ SharedAddress shared_address(const void* p) {
    return u32(__cvta_generic_to_shared(p));
}
template <class T>
__device__ __forceinline__ T read_shared(SharedAddress at) {
    T value;
    if constexpr (sizeof(T) == 4) {
        u32 w;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(at));
        memcpy(&value, &w, sizeof(T));
    } else if constexpr (sizeof(T) == 8) {
        u64 w;
        asm volatile("ld.shared.u64 %0, [%1];" : "=l"(w) : "r"(at));
        memcpy(&value, &w, sizeof(T));
    } else {
        constexpr int WORDS = sizeof(T) / 8;
        u64 w[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i += 2)
            asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];"
                         : "=l"(w[i]), "=l"(w[i + 1])
                         : "r"(at + 8 * i));
        memcpy(&value, w, sizeof(T));
    }
    return value;
}
// The same if it may be read; otherwise anything, without a branch: it is read all the same and must
// not be used.
template <class T>
__device__ __forceinline__ T read_shared_if(bool, SharedAddress at) {
    return read_shared<T>(at);
}
template <class T>
__device__ __forceinline__ void write_shared(SharedAddress at, const T& value) {
    constexpr int WORDS = sizeof(T) / 4;
    static_assert(WORDS == 1 || WORDS == 2 || WORDS == 4);
    u32 w[WORDS];
    memcpy(w, &value, sizeof(T));
    if constexpr (WORDS == 1)
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(w[0]));
    else if constexpr (WORDS == 2)
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(w[0]), "r"(w[1]));
    else
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(w[0]), "r"(w[1]),
                     "r"(w[2]), "r"(w[3]));
}
// A flag in shared memory that is raised once for each use of what it guards, use 0, 1, ... Raising it
// releases, seeing it raised acquires. Who looks whether it is for a use knows that it was for all uses
// before. An mbarrier where there are any: its arrival takes no fence, and the fence of a release
// store would wait for all stores to memory as well.
using Flag = u64;
__device__ __forceinline__ void
make_flag(Flag* flag) { // by one thread, before a barrier of the block
#if __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(flag)) : "memory");
#else
    *flag = 0;
#endif
}
__device__ __forceinline__ void unmake_flag(Flag* flag) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(flag)) : "memory");
#endif
}
__device__ __forceinline__ void raise_flag(SharedAddress flag) {
#if __CUDA_ARCH__ >= 800
    asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" ::"r"(flag) : "memory");
#else
    u32 uses;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(uses) : "r"(flag) : "memory");
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(flag), "r"(uses + 1) : "memory");
#endif
}
// Whether it is raised for a use that is `odd`.
__device__ __forceinline__ bool flag_raised(SharedAddress flag, bool odd) {
    u32 raised;
#if __CUDA_ARCH__ >= 800
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p;}"
                 : "=r"(raised)
                 : "r"(flag), "r"(u32(odd))
                 : "memory");
#else
    u32 uses;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(uses) : "r"(flag) : "memory");
    raised = u32((uses & 1) != u32(odd));
#endif
    return raised != 0;
}
// BYTES (4, 8 or 16) from global to shared memory past the registers. The data are there, for this
// thread, after it has waited for all of its committed groups of copies but the LEFT latest. Before
// sm_80 they are there at once.
template <int BYTES>
__device__ __forceinline__ void copy_async(SharedAddress to, const void* from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16);
    const u64 source = __cvta_generic_to_global(from);
#if __CUDA_ARCH__ >= 800
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(source) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source), "n"(BYTES)
                     : "memory");
#else
#pragma unroll
    for (int i = 0; i < BYTES; i += 4) {
        u32 w;
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(w) : "l"(source + i) : "memory");
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + i), "r"(w) : "memory");
    }
#endif
}
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}
__device__ __forceinline__ u32 load_acquire_shared(SharedAddress at) {
    u32 v;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}
__device__ __forceinline__ void store_release_shared(SharedAddress at, u32 v) {
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
// The same value, in a register: the compiler can neither see where it came from nor compute it anew.
__device__ __forceinline__ u32 kept(u32 v) {
    return __shfl_sync(FULL_WARP, v, threadIdx.x & 31);
}
// The same of a pointer; this one need not be called by all lanes.
template <class T>
__device__ __forceinline__ T* kept(T* p) {
    asm volatile("" : "+l"(p));
    return p;
}
// A value that is the same in all lanes, said so that the compiler may use it.
__device__ __forceinline__ u32 same_in_warp(u32 v) {
    return __shfl_sync(FULL_WARP, v, 0);
}
// Sums and counters that several threads add to.
__device__ __forceinline__ void add_relaxed(u32* p, u32 v) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void add_relaxed(float* p, float v) {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
}
__device__ __forceinline__ void add_relaxed(double* p, double v) {
    asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory");
}
__device__ __forceinline__ void fence_device() {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
__device__ __forceinline__ void fence_block() {
    asm volatile("fence.acq_rel.cta;" ::: "memory");
}
__device__ __forceinline__ void store_system(u32* p, u32 v) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
    return t;
}
#endif

} // namespace gpuilu
