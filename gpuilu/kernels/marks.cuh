// Values as their own ready marks, and sums and counters that several threads add to. sync.cuh says
// which accesses order what.
//
// A word of all ones means "not ready": one memset of 0xff bytes resets vectors, flags and tickets.
#pragma once
#include "accesses.cuh"

namespace gpuilu {

constexpr u32 MARK32 = 0xffffffffu;
constexpr u64 MARK64 = 0xffffffffffffffffull;

// ---- values as their own ready marks ------------------------------------------------------------
// The machine words of a value. All ones is a NaN that arithmetic never gives; a *result* that has
// that pattern all the same (it came in with b) is stored as the canonical NaN instead.
template <class V>
struct Words;
template <>
struct Words<float> {
    using type = u32;
    static constexpr int count = 1;
    static constexpr u32 nan = 0x7fffffffu;
    __device__ static void split(float v, u32 (&w)[1]) { w[0] = __float_as_uint(v); }
    __device__ static float join(const u32 (&w)[1]) { return __uint_as_float(w[0]); }
};
template <>
struct Words<double> {
    using type = u64;
    static constexpr int count = 1;
    static constexpr u64 nan = 0x7ff8000000000000ull;
    __device__ static void split(double v, u64 (&w)[1]) { w[0] = __double_as_longlong(v); }
    __device__ static double join(const u64 (&w)[1]) { return __longlong_as_double(w[0]); }
};
template <>
struct Words<Complex<float>> {
    using type = u64;
    static constexpr int count = 1;
    static constexpr u64 nan = 0x7fffffff7fffffffull;
    __device__ static void split(Complex<float> v, u64 (&w)[1]) {
        w[0] = u64(__float_as_uint(v.im)) << 32 | __float_as_uint(v.re);
    }
    __device__ static Complex<float> join(const u64 (&w)[1]) {
        return {__uint_as_float(u32(w[0])), __uint_as_float(u32(w[0] >> 32))};
    }
};
template <>
struct Words<Complex<double>> { // two words, each with its own mark: they may arrive apart
    using type = u64;
    static constexpr int count = 2;
    static constexpr u64 nan = 0x7ff8000000000000ull;
    __device__ static void split(Complex<double> v, u64 (&w)[2]) {
        w[0] = __double_as_longlong(v.re);
        w[1] = __double_as_longlong(v.im);
    }
    __device__ static Complex<double> join(const u64 (&w)[2]) {
        return {__longlong_as_double(w[0]), __longlong_as_double(w[1])};
    }
};

// K values side by side, moved by few wide accesses.
template <class T, int K>
struct alignas(sizeof(T) * K < 16 ? sizeof(T) * K : 16) Pack {
    T v[K];
};

template <class V, int K>
struct Words<Pack<V, K>> { // each with its own marks: they may arrive apart
    using type = typename Words<V>::type;
    static constexpr int each = Words<V>::count, count = K * each;
    static constexpr type nan = Words<V>::nan;
    __device__ static void split(const Pack<V, K>& values, type (&w)[count]) {
#pragma unroll
        for (int k = 0; k < K; ++k) {
            type part[each];
            Words<V>::split(values.v[k], part);
#pragma unroll
            for (int h = 0; h < each; ++h) w[k * each + h] = part[h];
        }
    }
    __device__ static Pack<V, K> join(const type (&w)[count]) {
        Pack<V, K> values;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            type part[each];
#pragma unroll
            for (int h = 0; h < each; ++h) part[h] = w[k * each + h];
            values.v[k] = Words<V>::join(part);
        }
        return values;
    }
};

// All words of a value, in accesses of 16 bytes where its type is aligned to them.
template <class V>
__device__ void load_words(const V* slot, typename Words<V>::type (&w)[Words<V>::count]) {
    using Word = typename Words<V>::type;
    const Word* const from = reinterpret_cast<const Word*>(slot);
    constexpr int WIDE = alignof(V) % 16 == 0 ? 16 / sizeof(Word) : 1;
#pragma unroll
    for (int h = 0; h < Words<V>::count; h += WIDE) {
        if constexpr (WIDE == 1)
            w[h] = load_relaxed(from + h);
        else {
            Word part[WIDE];
            load_relaxed(from + h, part);
#pragma unroll
            for (int i = 0; i < WIDE; ++i) w[h + i] = part[i];
        }
    }
}
template <class V>
__device__ void store_words_if(bool stores, V* slot,
                               const typename Words<V>::type (&w)[Words<V>::count]) {
    using Word = typename Words<V>::type;
    Word* const to = reinterpret_cast<Word*>(slot);
    constexpr int WIDE = alignof(V) % 16 == 0 ? 16 / sizeof(Word) : 1;
#pragma unroll
    for (int h = 0; h < Words<V>::count; h += WIDE) {
        if constexpr (WIDE == 1)
            store_relaxed_if(stores, to + h, w[h]);
        else {
            Word part[WIDE];
#pragma unroll
            for (int i = 0; i < WIDE; ++i) part[i] = w[h + i];
            store_relaxed_if(stores, to + h, part);
        }
    }
}

template <class V>
__device__ V not_a_number() {
    typename Words<V>::type w[Words<V>::count];
    for (int h = 0; h < Words<V>::count; ++h) w[h] = Words<V>::nan;
    return Words<V>::join(w);
}

// Make a value "not ready", before the launch in which others poll for it.
template <class V>
__device__ void mark(V* slot) {
    using Word = typename Words<V>::type;
#pragma unroll
    for (int h = 0; h < Words<V>::count; ++h) reinterpret_cast<Word*>(slot)[h] = Word(~Word(0));
}

// Store a result where others poll for it, on a condition, without a branch.
template <class V>
__device__ void publish_if(bool stores, V* slot, V value) {
    using Word = typename Words<V>::type;
    Word w[Words<V>::count];
    Words<V>::split(value, w);
#pragma unroll
    for (int h = 0; h < Words<V>::count; ++h)
        if (w[h] == Word(~Word(0))) w[h] = Words<V>::nan;
    store_words_if(stores, slot, w);
}
template <class V>
__device__ void publish(V* slot, V value) {
    publish_if(true, slot, value);
}

// ---- sums and counters --------------------------------------------------------------------------
// Add to a complex sum: two words, which may arrive apart.
template <class R>
__device__ void add_relaxed(Complex<R>* sum, Complex<R> v) {
    add_relaxed(&sum->re, v.re);
    add_relaxed(&sum->im, v.im);
}

// The same in shared memory.
template <class R>
__device__ void add_relaxed_shared(R* sum, R v) {
    atomicAdd(sum, v);
}
template <class R>
__device__ void add_relaxed_shared(Complex<R>* sum, Complex<R> v) {
    atomicAdd(&sum->re, v.re);
    atomicAdd(&sum->im, v.im);
}

// Values in device memory that other threads of the launch add to or read.
template <class V>
__device__ V load_value(const V* p) {
    using Word = typename Words<V>::type;
    Word w[Words<V>::count];
#pragma unroll
    for (int h = 0; h < Words<V>::count; ++h)
        w[h] = load_relaxed(reinterpret_cast<const Word*>(p) + h);
    return Words<V>::join(w);
}
template <class V>
__device__ void store_value(V* p, V value) {
    using Word = typename Words<V>::type;
    Word w[Words<V>::count];
    Words<V>::split(value, w);
#pragma unroll
    for (int h = 0; h < Words<V>::count; ++h) store_relaxed(reinterpret_cast<Word*>(p) + h, w[h]);
}

} // namespace gpuilu
