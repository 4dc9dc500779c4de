// The emulated machine: threads as fibers, blocks in slots, memory with its history of accesses.
//
// Weak memory is covered twice, by what finds each kind of fault whatever the schedule is:
//   - plain accesses: a happens-before race detector with vector clocks. Two accesses to one place,
//     one of them a write and at least one of them plain, must be ordered by barriers, __syncwarp,
//     or release and acquire; a missing release, acquire or __syncwarp is reported even where the
//     schedule at hand gave the right value. Votes and shuffles order nothing, as in CUDA.
//   - relaxed accesses: loads may return any earlier version that coherence allows (not older than
//     what the thread has seen of this word, nor than what happens before the load), for a bounded
//     time. So words that only *together* mean something are seen apart.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api.h"

namespace emulator {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 WARP = 32;
constexpr size_t STACK_BYTES = 64 << 10;

// ---- what the driver passes (the same layout in emulator.py) ------------------------------------
struct Options {
    u32 grid[3], block[3];
    u32 resident;       // blocks at once
    u32 races, stale;   // whether to detect races, to return earlier versions
    u32 shared_granule; // bytes of shared memory that are one place for the race detector
    u64 seed, spin_limit, step_limit;
};

struct Buffer {
    u64 offset, bytes; // in the arena; offsets are multiples of LINE
    u64 granule;
};
constexpr u64 LINE = 64;

struct Image {
    char *begin, *shared, *end;
};

// ---- memory -------------------------------------------------------------------------------------
struct Epoch {
    u32 thread = 0, time = 0, code = 0; // time 0: never
};

// The last accesses to one place.
struct Cell {
    static constexpr u32 READS = 3;
    Epoch write, ordered_write;
    Epoch reads[READS], ordered_reads[READS];
    u32 location = 0; // 1 + index of its versions, 0: none
    bool cached = false;
};

using Clock = std::vector<u32>;
using SharedClock = std::shared_ptr<const Clock>;

// What a store leaves behind for an acquiring load that reads it.
struct Released {
    SharedClock clock;
    std::int64_t block = -1; // only threads of this block may use it; -1: all
};

struct Version {
    u64 value;
    Epoch writer;
    u64 step;
    Released released;
};

// The versions of one word, oldest first; the last is what memory holds.
struct Location {
    const void* address;
    u32 size;
    u32 first = 0; // number of the first version kept
    std::vector<Version> versions;
};

// ---- threads ------------------------------------------------------------------------------------
struct Block;
struct Warp;

struct Collective {
    EmuCollective kind;
    u32 mask, code;
    u64 value;
    int parameter, width;
};

struct BarrierWait {
    int id, value;
    EmuReduction kind;
    u32 code;
};

enum class State { running, in_collective, in_barrier, exited };

struct Poll {
    const void* address = nullptr;
    u64 value = 0;
};

struct Thread {
    void* stack_pointer = nullptr;
    char* stack = nullptr;
    Block* block = nullptr;
    Warp* warp = nullptr;
    EmuDim index{};
    u32 id = 0, lane = 0; // id: in the whole grid
    State state = State::running;
    size_t at = 0; // in Machine::runnable

    Clock clock;
    Clock pending;  // released to relaxed loads, taken by a fence
    Released fence; // what relaxed stores after a fence release
    std::unordered_map<u32, u32> seen;

    std::vector<std::vector<EmuCopy>> copies{1}; // asynchronous, by group; the last one is open

    Collective collective{};
    BarrierWait barrier{};
    u64 result = 0;

    static constexpr u32 POLLS = 64;
    u64 stamp = 0, spins = 0; // fruitless steps since the machine's last progress
    Poll polls[POLLS];
    Poll last_poll;
    u32 last_code = 0;
};

struct Warp {
    Thread* lane[WARP] = {};
    bool slow = false;
};

struct Barrier {
    u32 expected = 0; // 0: all that have not exited
    std::vector<Thread*> waiting;
};

struct Block {
    EmuDim index{};
    u32 number = 0, slot = 0, live = 0;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    Barrier barriers[16];
    std::vector<Cell> shared;
};

enum class Fault : int { none, deadlock, race, collective, address, steps, trap };

struct Random {
    u64 state = 1;
    u64 next() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return state * 0x2545f4914f6cdd1dull;
    }
    u32 below(u32 n) { return u32((next() >> 32) * n >> 32); }
    bool one_in(u32 n) { return below(n) == 0; }
};

enum class Schedule { uniform, bursts, slow_warps, lockstep };
constexpr u32 SCHEDULES = 4;

struct Machine {
    Options options{};
    void (**entries)(void**) = nullptr;
    void** arguments = nullptr;
    const Image* images = nullptr;

    char* arena = nullptr;
    u64 arena_bytes = 0;
    std::vector<Buffer> buffers;
    std::vector<u64> first_cell; // of each buffer
    std::vector<u32> owner;      // 1 + buffer of each line of the arena, 0: none
    std::vector<Cell> cells;
    std::vector<Location> locations;

    char *stacks = nullptr, *stacks_end = nullptr;
    std::vector<std::unique_ptr<Block>> slots;
    std::vector<u32> order; // in which blocks start
    size_t started = 0;
    u32 threads_per_block = 0, n_threads = 0, live = 0;

    Thread* current = nullptr;
    void* main_stack = nullptr;
    std::vector<Thread*> runnable;
    Random random;
    Schedule schedule = Schedule::uniform;
    u32 burst = 0, until_overtaken = 0;
    u64 window = 0; // steps for which earlier versions stay visible
    u64 steps = 0, stamp = 0;

    Fault fault = Fault::none;
    std::string message;
};

extern Machine machine;

// fiber.cpp
void map_stacks(size_t count);
void prepare_fiber(Thread& t, void (*run)());
void switch_fiber(void** from, void* to);
bool stack_overflowed(const Thread& t);

// scheduler.cpp
void run_machine();
void start_block(u32 slot);
void yield_point();              // other threads may run before the calling one goes on
void block_current(State state); // until wake
void wake(Thread* t);
void progress();
void note_spin(Thread* t, u32 weight);
void note_poll(Thread* t, const void* address, u64 value, u32 code);
[[noreturn]] void fail(Fault fault, std::string message);

// collectives.cpp
void leave_collectives(Thread* t);
std::string missing_from(const Thread& t);

// memory.cpp
enum class Access { read, write, cached_read, ordered_read, ordered_write };
struct Place {
    Cell* cell = nullptr;
    u32 count = 0;
    bool shared = false;
};
Place locate(const void* p, size_t size, const char* what);
void note_access(const void* p, size_t size, Access access, u32 code);
void join(Clock& into, const Clock& other);
void tick(Thread* t);

// describe.cpp
std::string name_of(const Thread& t);
std::string name_of(u32 thread);
std::string place_name(const void* p);
std::string code_name(u32 code);
std::string waiting_threads();

// The place in the code that called the current api function, relative to its image.
inline u32 code_of(void* return_address) {
    return u32((char*)return_address - machine.images[machine.current->block->slot].begin) - 1;
}
#define CALLER code_of(__builtin_return_address(0))

} // namespace emulator
