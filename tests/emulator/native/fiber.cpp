// Fibers: a switch of stacks, by hand where that is known, by ucontext elsewhere.
#include <sys/mman.h>

#include <cstring>
#include <stdexcept>

#include "runtime.h"

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulator {

constexpr u64 CANARY = 0x5afe5afe5afe5afeull;

// Stacks stay mapped from launch to launch.
void map_stacks(size_t count) {
    Machine& m = machine;
    const size_t bytes = count * STACK_BYTES;
    if (size_t(m.stacks_end - m.stacks) >= bytes) return;
    if (m.stacks) munmap(m.stacks, m.stacks_end - m.stacks);
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no memory for the threads' stacks");
    m.stacks = static_cast<char*>(p);
    m.stacks_end = m.stacks + bytes;
}

bool stack_overflowed(const Thread& t) {
    return std::memcmp(t.stack, &CANARY, sizeof CANARY) != 0;
}

#ifdef __x86_64__

asm(R"(
    .text
    .globl emu_switch_stack
    .hidden emu_switch_stack
    .type emu_switch_stack, @function
emu_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emu_switch_stack, .-emu_switch_stack
)");
extern "C" void emu_switch_stack(void** from, void* to);

void switch_fiber(void** from, void* to) {
    emu_switch_stack(from, to);
}

void prepare_fiber(Thread& t, void (*run)()) {
    std::memcpy(t.stack, &CANARY, sizeof CANARY);
    void** top = reinterpret_cast<void**>(t.stack + STACK_BYTES);
    *--top = nullptr; // where `run` would return to; it also gives the alignment it expects
    *--top = reinterpret_cast<void*>(run);
    for (int registers = 0; registers < 6; ++registers) *--top = nullptr;
    t.stack_pointer = top;
}

#else

void switch_fiber(void** from, void* to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}

void prepare_fiber(Thread& t, void (*run)()) {
    std::memcpy(t.stack, &CANARY, sizeof CANARY);
    auto* context = reinterpret_cast<ucontext_t*>(t.stack + LINE);
    getcontext(context);
    const size_t used = LINE + (sizeof(ucontext_t) + LINE - 1) / LINE * LINE;
    context->uc_stack.ss_sp = t.stack + used;
    context->uc_stack.ss_size = STACK_BYTES - used;
    context->uc_link = nullptr;
    makecontext(context, run, 0);
    t.stack_pointer = context;
}

#endif

} // namespace emulator
