// Included after a kernel source: entry points that the driver finds by number.
#pragma once

#include <utility>

extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char __bss_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));

// Where this copy of the code lies: everything from [0] to [2], its shared variables from [1] on.
extern "C" __attribute__((no_sanitize_thread)) void emulator_image(void** image) {
    image[0] = __ehdr_start;
    image[1] = __bss_start;
    image[2] = _end;
}

template <auto kernel>
struct EmulatorEntry;
template <class... P, void (*kernel)(P...)>
struct EmulatorEntry<kernel> {
    static constexpr unsigned sizes[] = {sizeof(P)..., 0};
    __attribute__((no_sanitize_thread)) static void run(void** arguments) {
        run(arguments, std::index_sequence_for<P...>());
    }
    template <size_t... I>
    __attribute__((no_sanitize_thread)) static void run(void** arguments,
                                                        std::index_sequence<I...>) {
        kernel(*static_cast<P*>(arguments[I])...);
    }
};

#define EMULATOR_KERNEL(number, ...)                                                               \
    extern "C" __attribute__((no_sanitize_thread)) void emulator_entry_##number(void** a) {        \
        EmulatorEntry<&__VA_ARGS__>::run(a);                                                       \
    }                                                                                              \
    extern "C" const unsigned* emulator_sizes_##number() {                                         \
        return EmulatorEntry<&__VA_ARGS__>::sizes;                                                 \
    }
