// The primitives that accesses.cuh writes in PTX, on the emulator's runtime. A primitive added there is
// added here.
#pragma once

#include "api.h"

namespace gpuilu {

EMU_INLINE unsigned load_relaxed(const unsigned* p) {
    return unsigned(emu_load(p, 4, EMU_RELAXED));
}
EMU_INLINE unsigned long long load_relaxed(const unsigned long long* p) {
    return emu_load(p, 8, EMU_RELAXED);
}
EMU_INLINE void store_relaxed(unsigned* p, unsigned v) {
    emu_store(p, v, 4, EMU_RELAXED);
}
EMU_INLINE void store_relaxed(unsigned long long* p, unsigned long long v) {
    emu_store(p, v, 8, EMU_RELAXED);
}
template <class Word>
EMU_INLINE void store_relaxed_if(bool stores, Word* p, Word v) {
    if (stores) store_relaxed(p, v);
}
template <class Word, unsigned N>
EMU_INLINE void load_relaxed(const Word* p, Word (&w)[N]) {
    emu_aligned(p, sizeof(w));
    for (unsigned i = 0; i < N; ++i) w[i] = load_relaxed(p + i);
}
template <class Word, unsigned N>
EMU_INLINE void store_relaxed_if(bool stores, Word* p, const Word (&w)[N]) {
    if (stores) emu_aligned(p, sizeof(w));
    for (unsigned i = 0; i < N; ++i) store_relaxed_if(stores, p + i, w[i]);
}
EMU_INLINE unsigned load_acquire(const unsigned* p) {
    return unsigned(emu_load(p, 4, EMU_ACQUIRE));
}
EMU_INLINE void store_release(unsigned* p, unsigned v) {
    emu_store(p, v, 4, EMU_RELEASE);
}
EMU_INLINE unsigned load_relaxed_shared(const unsigned* p) {
    return unsigned(emu_load(p, 4, EMU_RELAXED));
}
EMU_INLINE void store_relaxed_shared(unsigned* p, unsigned v) {
    emu_store(p, v, 4, EMU_RELAXED);
}
EMU_INLINE unsigned long long load_relaxed_shared(const unsigned long long* p) {
    return emu_load(p, 8, EMU_RELAXED);
}
EMU_INLINE void store_relaxed_shared(unsigned long long* p, unsigned long long v) {
    emu_store(p, v, 8, EMU_RELAXED);
}
EMU_INLINE unsigned load_acquire_shared(const unsigned* p) {
    return unsigned(emu_load(p, 4, EMU_ACQUIRE));
}
EMU_INLINE void store_release_shared(unsigned* p, unsigned v) {
    emu_store(p, v, 4, EMU_RELEASE);
}
using SharedAddress = char*;
EMU_INLINE SharedAddress shared_address(const void* p) {
    return static_cast<char*>(const_cast<void*>(p));
}
EMU_INLINE unsigned load_acquire_shared(SharedAddress at) {
    return load_acquire_shared(reinterpret_cast<const unsigned*>(at));
}
// Relaxed by address: what planted faults put in the place of an acquire and a release.
EMU_INLINE unsigned load_relaxed_shared(SharedAddress at) {
    return load_relaxed_shared(reinterpret_cast<const unsigned*>(at));
}
EMU_INLINE void store_relaxed_shared(SharedAddress at, unsigned v) {
    store_relaxed_shared(reinterpret_cast<unsigned*>(at), v);
}
EMU_INLINE void store_release_shared(SharedAddress at, unsigned v) {
    store_release_shared(reinterpret_cast<unsigned*>(at), v);
}
template <class T>
EMU_INLINE T read_shared(SharedAddress at) {
    return *reinterpret_cast<const T*>(at);
}
template <class T>
EMU_INLINE T read_shared_if(bool reads, SharedAddress at) {
    return reads ? read_shared<T>(at) : T();
}
template <class T>
EMU_INLINE void write_shared(SharedAddress at, const T& value) {
    *reinterpret_cast<T*>(at) = value;
}
using Flag = unsigned long long;
EMU_INLINE void make_flag(Flag* flag) {
    *flag = 0;
}
EMU_INLINE void unmake_flag(Flag*) {}
EMU_INLINE void raise_flag(SharedAddress flag) {
    emu_store(flag, emu_load(flag, 8, EMU_RELAXED) + 1, 8, EMU_RELEASE);
}
EMU_INLINE bool flag_raised(SharedAddress flag, bool odd) {
    return (emu_load(flag, 8, EMU_ACQUIRE) & 1) != unsigned(odd);
}
// The destination is spoilt at once, and right only after the wait: both are stores that race.
template <int BYTES>
EMU_INLINE void copy_async(SharedAddress to, const void* from) {
    for (int i = 0; i < BYTES / 4; ++i) reinterpret_cast<unsigned*>(to)[i] = 0x7ff5a5a5u;
    emu_copy_issue(to, from, BYTES);
}
EMU_INLINE void copy_async_commit() {
    emu_copy_commit();
}
template <int LEFT>
EMU_INLINE void copy_async_wait() {
    for (EmuCopy c = emu_copy_waited(LEFT); c.size; c = emu_copy_waited(LEFT))
        for (unsigned i = 0; i < c.size / 4; ++i)
            static_cast<unsigned*>(c.to)[i] = static_cast<const unsigned*>(c.from)[i];
}
template <class T>
EMU_INLINE T kept(T v) {
    return v;
}
EMU_INLINE unsigned same_in_warp(unsigned v) {
    return v;
}
template <class T>
EMU_INLINE std::enable_if_t<std::is_arithmetic_v<T>> add_relaxed(T* p, T v) {
    atomicAdd(p, v);
}
EMU_INLINE void fence_device() {
    emu_fence(EMU_DEVICE);
}
EMU_INLINE void fence_block() {
    emu_fence(EMU_BLOCK);
}
EMU_INLINE void store_system(unsigned* p, unsigned v) {
    emu_store(p, v, 4, EMU_RELAXED);
}
EMU_INLINE unsigned long long nanoseconds() {
    return emu_nanoseconds();
}

} // namespace gpuilu
