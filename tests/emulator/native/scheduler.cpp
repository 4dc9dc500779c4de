// Which thread runs next: seeded choices, starting blocks, deadlock.
#include <algorithm>
#include <cstring>

#include "runtime.h"

namespace emulator {

Machine machine;

namespace {

constexpr u32 POLL_WEIGHT = 8; // a repeated poll tells more than a vote

void leave_runnable(Thread* t) {
    Machine& m = machine;
    m.runnable[t->at] = m.runnable.back();
    m.runnable[t->at]->at = t->at;
    m.runnable.pop_back();
}

Thread* next_lane(Thread* t) {
    if (t == nullptr) return nullptr;
    for (u32 k = 1; k < WARP; ++k) {
        Thread* other = t->warp->lane[(t->lane + k) % WARP];
        if (other && other->state == State::running) return other;
    }
    return nullptr;
}

Thread* any_thread() {
    Machine& m = machine;
    Thread* t = m.runnable[m.random.below(u32(m.runnable.size()))];
    if (m.schedule != Schedule::slow_warps) return t;
    for (int tries = 0; tries < 4 && t->warp->slow && !m.random.one_in(16); ++tries)
        t = m.runnable[m.random.below(u32(m.runnable.size()))];
    return t;
}

Thread* choose() {
    Machine& m = machine;
    if (m.schedule == Schedule::lockstep && !m.random.one_in(64))
        if (Thread* t = next_lane(m.current)) return t;
    if (m.schedule == Schedule::bursts) m.burst = m.random.below(64);
    return any_thread();
}

void resume(Thread* next) {
    Machine& m = machine;
    Thread* before = m.current;
    if (next == before) return;
    m.current = next;
    switch_fiber(&before->stack_pointer, next->stack_pointer);
}

// The stacks of a finished block are used again by the next one, so that is started from the main
// stack, not from the last thread's.
[[noreturn]] void leave(Thread* t) {
    Machine& m = machine;
    leave_runnable(t);
    t->state = State::exited;
    progress();
    --m.live;
    leave_collectives(t);
    void* nowhere;
    m.burst = 0;
    if (--t->block->live == 0) switch_fiber(&nowhere, m.main_stack);
    if (m.runnable.empty()) fail(Fault::deadlock, "every thread waits\n" + waiting_threads());
    m.current = choose();
    switch_fiber(&nowhere, m.current->stack_pointer);
    __builtin_unreachable();
}

void run_thread() {
    Machine& m = machine;
    m.entries[m.current->block->slot](m.arguments);
    if (stack_overflowed(*m.current)) fail(Fault::address, "the stack of a thread overflowed");
    leave(m.current);
}

void check_deadlock() {
    Machine& m = machine;
    for (const Thread* t : m.runnable)
        if (t->stamp != m.stamp || t->spins < m.options.spin_limit) return;
    fail(Fault::deadlock, "every thread that runs only polls\n" + waiting_threads());
}

} // namespace

void start_block(u32 slot) {
    Machine& m = machine;
    const Options& o = m.options;
    const u32 number = m.order[m.started++];
    Block& b = *m.slots[slot];
    b.number = number;
    b.index = {number % o.grid[0], number / o.grid[0] % o.grid[1],
               number / (o.grid[0] * o.grid[1])};
    b.slot = slot;
    b.live = m.threads_per_block;
    b.threads.clear();
    b.threads.resize(m.threads_per_block);
    b.warps.assign((m.threads_per_block + WARP - 1) / WARP, Warp());
    for (Warp& w : b.warps) w.slow = m.random.one_in(3);
    const Image& image = m.images[slot];
    const size_t shared = image.end - image.shared;
    for (size_t k = 0; k < shared; ++k) image.shared[k] = char(m.random.next() >> 40);
    b.shared.assign(shared / o.shared_granule + 1, Cell());
    for (u32 k = 0; k < m.threads_per_block; ++k) {
        Thread& t = b.threads[k];
        t.block = &b;
        t.warp = &b.warps[k / WARP];
        t.lane = k % WARP;
        t.warp->lane[t.lane] = &t;
        t.id = number * m.threads_per_block + k;
        t.index = {k % o.block[0], k / o.block[0] % o.block[1], k / (o.block[0] * o.block[1])};
        t.stack = m.stacks + (size_t(slot) * m.threads_per_block + k) * STACK_BYTES;
        t.clock.assign(m.n_threads, 0);
        t.clock[t.id] = 1;
        prepare_fiber(t, run_thread);
        wake(&t);
    }
    m.live += m.threads_per_block;
    progress();
}

// Start blocks where slots are free and let threads run, until all blocks have finished.
void run_machine() {
    Machine& m = machine;
    while (m.fault == Fault::none) {
        for (u32 slot = 0; slot < m.slots.size(); ++slot)
            if (m.slots[slot]->live == 0 && m.started < m.order.size()) start_block(slot);
        m.current = nullptr;
        if (m.live == 0) return;
        if (m.runnable.empty()) {
            m.fault = Fault::deadlock;
            m.message = "every thread waits\n" + waiting_threads();
            return;
        }
        m.current = choose();
        switch_fiber(&m.main_stack, m.current->stack_pointer);
    }
}

void wake(Thread* t) {
    t->state = State::running;
    t->at = machine.runnable.size();
    machine.runnable.push_back(t);
}

void yield_point() {
    Machine& m = machine;
    if (++m.steps > m.options.step_limit)
        fail(Fault::steps,
             "no end after " + std::to_string(m.steps) + " steps\n" + waiting_threads());
    if (m.burst > 0) {
        --m.burst;
        return;
    }
    resume(choose());
}

void block_current(State state) {
    Machine& m = machine;
    Thread* t = m.current;
    leave_runnable(t);
    t->state = state;
    m.burst = 0;
    if (m.runnable.empty()) fail(Fault::deadlock, "every thread waits\n" + waiting_threads());
    resume(choose());
}

// Memory has changed, or a thread came or went: whoever polls may find something new.
void progress() {
    ++machine.stamp;
}

void note_spin(Thread* t, u32 weight) {
    if (t->stamp != machine.stamp) {
        t->stamp = machine.stamp;
        t->spins = 0;
        std::memset(static_cast<void*>(t->polls), 0, sizeof t->polls);
        t->last_poll = Poll();
    }
    t->spins += weight;
    if (t->spins >= machine.options.spin_limit && t->spins % 1024 < weight) check_deadlock();
}

// A poll is fruitless if the thread has seen this value there since the last progress.
void note_poll(Thread* t, const void* address, u64 value, u32 code) {
    note_spin(t, 0);
    Poll& known = t->polls[(reinterpret_cast<size_t>(address) / 4) % Thread::POLLS];
    if (known.address == address && known.value == value) {
        t->last_poll = known;
        t->last_code = code;
        note_spin(t, POLL_WEIGHT);
    } else {
        known = {address, value};
    }
}

// The launch ends here: its fibers are abandoned where they stand.
void fail(Fault fault, std::string message) {
    Machine& m = machine;
    m.fault = fault;
    m.message = std::move(message);
    void* nowhere;
    switch_fiber(&nowhere, m.main_stack);
    __builtin_unreachable();
}

} // namespace emulator
