// CUDA C++ for g++: the language surface that the kernels use, on the emulator's runtime.
//
// Each block slot of the emulator has its own copy of the compiled kernel, so that a `__shared__`
// variable is simply a static one. `extern __shared__ T a[];` becomes a pointer to one static array.
#pragma once

#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "api.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static const
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict

#define EMU_INLINE inline __attribute__((always_inline))

using dim3 = EmuDim;
constexpr int warpSize = 32;
#define threadIdx (emu_thread_idx())
#define blockIdx (emu_block_idx())
#define blockDim (emu_block_dim())
#define gridDim (emu_grid_dim())

namespace emulator {

template <class T>
EMU_INLINE unsigned long long to_bits(T v) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "ordered accesses are of 4 or 8 bytes");
    if constexpr (sizeof(T) == 4)
        return __builtin_bit_cast(unsigned, v);
    else
        return __builtin_bit_cast(unsigned long long, v);
}

template <class T>
EMU_INLINE T from_bits(unsigned long long bits) {
    if constexpr (sizeof(T) == 4)
        return __builtin_bit_cast(T, static_cast<unsigned>(bits));
    else
        return __builtin_bit_cast(T, bits);
}

template <class T>
using Same = std::common_type_t<T>; // a parameter that deduces nothing

template <class T, class F>
EMU_INLINE T update(T* p, const char* name, F next) {
    const T old = from_bits<T>(emu_rmw_begin(p, sizeof(T), name));
    emu_rmw_end(p, to_bits<T>(next(old)), sizeof(T), true);
    return old;
}

template <class T>
EMU_INLINE T exchange_lanes(EmuCollective kind, unsigned mask, T v, int by, int w) {
    return from_bits<T>(emu_collective(kind, mask, to_bits(v), by, w));
}

} // namespace emulator

// ---- barriers, votes, shuffles ------------------------------------------------------------------
EMU_INLINE void __syncthreads() {
    emu_barrier(0, 0, EMU_PLAIN, 0);
}
EMU_INLINE int __syncthreads_or(int v) {
    return emu_barrier(0, 0, EMU_OR, v);
}
EMU_INLINE int __syncthreads_and(int v) {
    return emu_barrier(0, 0, EMU_AND, v);
}
EMU_INLINE int __syncthreads_count(int v) {
    return emu_barrier(0, 0, EMU_COUNT, v);
}
EMU_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
    emu_collective(EMU_SYNCWARP, mask, 0, 0, 32);
}
EMU_INLINE int __any_sync(unsigned mask, int v) {
    return int(emu_collective(EMU_ANY, mask, v != 0, 0, 32));
}
EMU_INLINE int __all_sync(unsigned mask, int v) {
    return int(emu_collective(EMU_ALL, mask, v != 0, 0, 32));
}
EMU_INLINE unsigned __ballot_sync(unsigned mask, int v) {
    return unsigned(emu_collective(EMU_BALLOT, mask, v != 0, 0, 32));
}
EMU_INLINE unsigned __activemask() {
    return emu_active_mask();
}

template <class T>
EMU_INLINE T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
    return emulator::exchange_lanes(EMU_SHFL, mask, v, lane, width);
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    return emulator::exchange_lanes(EMU_SHFL_UP, mask, v, int(by), width);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    return emulator::exchange_lanes(EMU_SHFL_DOWN, mask, v, int(by), width);
}
template <class T>
EMU_INLINE T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
    return emulator::exchange_lanes(EMU_SHFL_XOR, mask, v, by, width);
}

// ---- memory -------------------------------------------------------------------------------------
EMU_INLINE void __threadfence() {
    emu_fence(EMU_DEVICE);
}
EMU_INLINE void __threadfence_system() {
    emu_fence(EMU_DEVICE);
}
EMU_INLINE void __threadfence_block() {
    emu_fence(EMU_BLOCK);
}
EMU_INLINE void __nanosleep(unsigned) {
    emu_pause();
}
EMU_INLINE void __trap() {
    emu_trap();
}

template <class T>
EMU_INLINE T __ldg(const T* p) {
    emu_cached_read(p, sizeof(T));
    return *p;
}

template <class T>
EMU_INLINE T atomicAdd(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicAdd", [=](T old) { return T(old + v); });
}
template <class T>
EMU_INLINE T atomicSub(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicSub", [=](T old) { return T(old - v); });
}
template <class T>
EMU_INLINE T atomicMin(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicMin", [=](T old) { return v < old ? v : old; });
}
template <class T>
EMU_INLINE T atomicMax(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicMax", [=](T old) { return v > old ? v : old; });
}
template <class T>
EMU_INLINE T atomicExch(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicExch", [=](T) { return v; });
}
template <class T>
EMU_INLINE T atomicOr(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicOr", [=](T old) { return T(old | v); });
}
template <class T>
EMU_INLINE T atomicAnd(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicAnd", [=](T old) { return T(old & v); });
}
template <class T>
EMU_INLINE T atomicXor(T* p, emulator::Same<T> v) {
    return emulator::update(p, "atomicXor", [=](T old) { return T(old ^ v); });
}
template <class T>
EMU_INLINE T atomicCAS(T* p, emulator::Same<T> expected, emulator::Same<T> v) {
    const T old = emulator::from_bits<T>(emu_rmw_begin(p, sizeof(T), "atomicCAS"));
    emu_rmw_end(p, emulator::to_bits<T>(v), sizeof(T), old == expected);
    return old;
}

// ---- arithmetic: compiled with -ffp-contract=off ------------------------------------------------
EMU_INLINE float __fmul_rn(float a, float b) {
    return a * b;
}
EMU_INLINE double __dmul_rn(double a, double b) {
    return a * b;
}
EMU_INLINE float __fadd_rn(float a, float b) {
    return a + b;
}
EMU_INLINE double __dadd_rn(double a, double b) {
    return a + b;
}
EMU_INLINE float __fsub_rn(float a, float b) {
    return a - b;
}
EMU_INLINE double __dsub_rn(double a, double b) {
    return a - b;
}
EMU_INLINE float __fdiv_rn(float a, float b) {
    return a / b;
}
EMU_INLINE double __ddiv_rn(double a, double b) {
    return a / b;
}
EMU_INLINE float __frcp_rn(float a) {
    return 1.0f / a;
}
EMU_INLINE double __drcp_rn(double a) {
    return 1.0 / a;
}
EMU_INLINE float __fsqrt_rn(float a) {
    return __builtin_sqrtf(a);
}
EMU_INLINE double __dsqrt_rn(double a) {
    return __builtin_sqrt(a);
}
EMU_INLINE float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
EMU_INLINE double __fma_rn(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}

EMU_INLINE unsigned __float_as_uint(float v) {
    return __builtin_bit_cast(unsigned, v);
}
EMU_INLINE int __float_as_int(float v) {
    return __builtin_bit_cast(int, v);
}
EMU_INLINE float __uint_as_float(unsigned v) {
    return __builtin_bit_cast(float, v);
}
EMU_INLINE float __int_as_float(int v) {
    return __builtin_bit_cast(float, v);
}
EMU_INLINE long long __double_as_longlong(double v) {
    return __builtin_bit_cast(long long, v);
}
EMU_INLINE double __longlong_as_double(long long v) {
    return __builtin_bit_cast(double, v);
}

EMU_INLINE int __popc(unsigned v) {
    return __builtin_popcount(v);
}
EMU_INLINE int __popcll(unsigned long long v) {
    return __builtin_popcountll(v);
}
EMU_INLINE int __ffs(int v) {
    return __builtin_ffs(v);
}
EMU_INLINE int __ffsll(long long v) {
    return __builtin_ffsll(v);
}
EMU_INLINE int __clz(int v) {
    return v ? __builtin_clz(unsigned(v)) : 32;
}
EMU_INLINE int __clzll(long long v) {
    return v ? __builtin_clzll(v) : 64;
}

template <class T>
EMU_INLINE T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
EMU_INLINE T max(T a, T b) {
    return a < b ? b : a;
}
using std::fabs;
using std::fmax;
using std::fmin;
using std::isfinite;
using std::isnan;

#include "primitives.h"
