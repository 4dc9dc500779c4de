// Barriers of a block; votes, shuffles and __syncwarp of a warp, with their masks checked.
#include "runtime.h"

namespace emulator {

namespace {

const char* const NAMES[] = {"__syncwarp",       "__any_sync",     "__all_sync",
                             "__ballot_sync",    "__shfl_sync",    "__shfl_up_sync",
                             "__shfl_down_sync", "__shfl_xor_sync"};

std::string hex(u32 v) {
    char text[16];
    snprintf(text, sizeof text, "0x%08x", v);
    return text;
}

std::string describe(const Collective& c) {
    return std::string(NAMES[c.kind]) + "(" + hex(c.mask) + ") at " + code_name(c.code);
}

bool same(const Collective& a, const Collective& b) {
    return a.kind == b.kind && a.mask == b.mask && a.width == b.width;
}

[[noreturn]] void cannot_come(const Thread& t, u32 lane, const std::string& why) {
    fail(Fault::collective, name_of(t) + " calls " + describe(t.collective) +
                                ", which names lane " + std::to_string(lane) + ": " + why);
}

// A lane that the mask names but that can never come, as things stand.
void check_named(const Thread& t, const Thread* other, u32 lane) {
    if (other == nullptr) cannot_come(t, lane, "the block has no such thread");
    if (other->state == State::exited) cannot_come(t, lane, "that thread has exited");
    if (other->state == State::in_barrier && other->barrier.id == 0)
        cannot_come(t, lane,
                    "that thread waits at __syncthreads at " + code_name(other->barrier.code));
    if (other->state == State::in_collective && !same(other->collective, t.collective) &&
        (other->collective.mask >> t.lane & 1u))
        cannot_come(t, lane, "that thread waits at " + describe(other->collective));
}

u64 vote(const Warp& w, const Collective& c) {
    u32 ballot = 0;
    for (u32 lane = 0; lane < WARP; ++lane)
        if (c.mask >> lane & 1u) ballot |= u32(w.lane[lane]->collective.value) << lane;
    if (c.kind == EMU_BALLOT) return ballot;
    return c.kind == EMU_ANY ? ballot != 0 : ballot == c.mask;
}

u64 shuffle(const Warp& w, const Thread& t) {
    const Collective& c = t.collective;
    const int width = c.width, segment = int(t.lane) & ~(width - 1), lane = int(t.lane);
    int from = lane;
    if (c.kind == EMU_SHFL) from = segment + (c.parameter & (width - 1));
    if (c.kind == EMU_SHFL_UP) from = lane - c.parameter < segment ? lane : lane - c.parameter;
    if (c.kind == EMU_SHFL_DOWN)
        from = lane + c.parameter >= segment + width ? lane : lane + c.parameter;
    if (c.kind == EMU_SHFL_XOR)
        from = (lane ^ c.parameter) >= segment + width ? lane : lane ^ c.parameter;
    if (!(c.mask >> from & 1u))
        fail(Fault::collective, name_of(t) + " calls " + describe(c) + " and reads from lane " +
                                    std::to_string(from) + ", which the mask does not name");
    return w.lane[from]->collective.value;
}

// __syncwarp orders memory among its lanes.
void join_lanes(Warp& w, u32 mask) {
    Clock all(machine.n_threads, 0);
    for (u32 lane = 0; lane < WARP; ++lane)
        if (mask >> lane & 1u) join(all, w.lane[lane]->clock);
    for (u32 lane = 0; lane < WARP; ++lane)
        if (mask >> lane & 1u) {
            w.lane[lane]->clock = all;
            tick(w.lane[lane]);
        }
}

void complete(Warp& w, Thread* last) {
    const Collective& c = last->collective;
    for (u32 lane = 0; lane < WARP; ++lane) {
        if (!(c.mask >> lane & 1u)) continue;
        Thread& t = *w.lane[lane];
        if (c.kind != EMU_SYNCWARP) t.result = c.kind < EMU_SHFL ? vote(w, c) : shuffle(w, t);
    }
    if (c.kind == EMU_SYNCWARP) join_lanes(w, c.mask);
    for (u32 lane = 0; lane < WARP; ++lane)
        if ((c.mask >> lane & 1u) && w.lane[lane] != last) wake(w.lane[lane]);
}

bool all_arrived(const Thread& t) {
    bool all = true;
    for (u32 lane = 0; lane < WARP; ++lane) {
        if (!(t.collective.mask >> lane & 1u) || lane == t.lane) continue;
        const Thread* other = t.warp->lane[lane];
        check_named(t, other, lane);
        if (other->state != State::in_collective || !same(other->collective, t.collective))
            all = false;
    }
    return all;
}

u32 expected_at(const Block& b, const Barrier& barrier) {
    return barrier.expected ? barrier.expected : b.live;
}

int reduce(const Barrier& barrier, EmuReduction kind) {
    int any = 0, all = 1, count = 0;
    for (const Thread* t : barrier.waiting) {
        any |= t->barrier.value != 0;
        all &= t->barrier.value != 0;
        count += t->barrier.value != 0;
    }
    return kind == EMU_OR ? any : kind == EMU_AND ? all : count;
}

// Everybody has come: memory is ordered among them. `last` is running already.
void release(Barrier& barrier, Thread* last) {
    Clock all(machine.n_threads, 0);
    for (const Thread* t : barrier.waiting) join(all, t->clock);
    const int result = reduce(barrier, barrier.waiting[0]->barrier.kind);
    for (Thread* t : barrier.waiting) {
        t->clock = all;
        tick(t);
        t->result = u64(result);
        if (t != last) wake(t);
    }
    barrier.waiting.clear();
}

} // namespace

// An exited thread counts no more at __syncthreads, and must not be named by a waiting lane.
void leave_collectives(Thread* t) {
    for (const Thread* other : t->warp->lane)
        if (other && other->state == State::in_collective &&
            (other->collective.mask >> t->lane & 1u))
            check_named(*other, t, t->lane);
    Block& b = *t->block;
    Barrier& barrier = b.barriers[0];
    const u32 live = b.live - 1; // the caller still counts
    if (!barrier.waiting.empty() && barrier.waiting.size() == live) release(barrier, nullptr);
}

std::string missing_from(const Thread& t) {
    std::string text;
    if (t.state == State::in_collective) {
        u32 missing = 0;
        for (u32 lane = 0; lane < WARP; ++lane) {
            const Thread* other = t.warp->lane[lane];
            if (other &&
                (other->state != State::in_collective || !same(other->collective, t.collective)))
                missing |= 1u << lane;
        }
        return "waits at " + describe(t.collective) + " for the lanes " +
               hex(missing & t.collective.mask);
    }
    const Barrier& barrier = t.block->barriers[t.barrier.id];
    text = "waits at barrier " + std::to_string(t.barrier.id) + " at " + code_name(t.barrier.code) +
           ", where " + std::to_string(barrier.waiting.size()) + " of " +
           std::to_string(expected_at(*t.block, barrier)) + " have come; missing are the threads";
    u32 listed = 0;
    for (const Thread& other : t.block->threads) {
        const bool waits = other.state == State::in_barrier && other.barrier.id == t.barrier.id;
        if (waits || other.state == State::exited || ++listed > 8) continue;
        text += " " + std::to_string(other.id % machine.threads_per_block);
    }
    return text + (listed > 8 ? " ..." : "");
}

} // namespace emulator

using namespace emulator;

unsigned long long emu_collective(EmuCollective kind, unsigned mask, unsigned long long value,
                                  int parameter, int width) {
    const u32 code = CALLER;
    Thread* t = machine.current;
    t->collective = {kind, mask, code, value, parameter, width};
    note_spin(t, 1);
    yield_point();
    if (!(mask >> t->lane & 1u))
        fail(Fault::collective,
             name_of(*t) + " calls " + describe(t->collective) + ", which does not name it");
    if (all_arrived(*t))
        complete(*t->warp, t);
    else
        block_current(State::in_collective);
    return t->result;
}

int emu_barrier(int id, int count, EmuReduction kind, int value) {
    const u32 code = CALLER;
    Thread* t = machine.current;
    note_spin(t, 1);
    yield_point();
    t->barrier = {id, value, kind, code};
    Barrier& barrier = t->block->barriers[id];
    if (!barrier.waiting.empty() &&
        (barrier.waiting[0]->barrier.kind != kind || barrier.expected != u32(count)))
        fail(Fault::collective, name_of(*t) + " comes to barrier " + std::to_string(id) + " at " +
                                    code_name(code) +
                                    " in another way than those who wait there at " +
                                    code_name(barrier.waiting[0]->barrier.code));
    for (const Thread* other : t->warp->lane)
        if (other && other->state == State::in_collective && id == 0 &&
            (other->collective.mask >> t->lane & 1u))
            fail(Fault::collective, name_of(*t) + " comes to __syncthreads at " + code_name(code) +
                                        " but is named by " + describe(other->collective));
    barrier.expected = u32(count);
    barrier.waiting.push_back(t);
    if (barrier.waiting.size() == expected_at(*t->block, barrier))
        release(barrier, t);
    else
        block_current(State::in_barrier);
    return int(t->result);
}

// Any set of lanes that are there, with the caller: nothing more is promised.
unsigned emu_active_mask() {
    Thread* t = machine.current;
    u32 there = 0;
    for (const Thread* other : t->warp->lane)
        if (other && other->state == State::running) there |= 1u << other->lane;
    return (there & u32(machine.random.next() >> 32)) | 1u << t->lane;
}
