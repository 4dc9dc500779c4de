// What -fsanitize=thread calls at plain accesses, and the launch itself.
#include <algorithm>
#include <cstring>

#include "runtime.h"

namespace emulator {

namespace {

constexpr u32 OVERTAKEN_EVERY = 128; // plain accesses, on average

inline void plain(const void* p, size_t size, Access access, void* return_address) {
    Machine& m = machine;
    const char* at = static_cast<const char*>(p);
    if (at >= m.stacks && at < m.stacks_end && size_t(at - m.current->stack) < STACK_BYTES) return;
    if (m.until_overtaken-- == 0) {
        m.until_overtaken = m.random.below(2 * OVERTAKEN_EVERY);
        yield_point();
    }
    note_access(p, size, access, code_of(return_address));
}

void lay_out(const Buffer* buffers, u32 n_buffers) {
    Machine& m = machine;
    m.buffers.assign(buffers, buffers + n_buffers);
    m.owner.assign(m.arena_bytes / LINE + 1, 0);
    m.first_cell.clear();
    u64 cells = 0;
    for (u32 k = 0; k < n_buffers; ++k) {
        const Buffer& b = m.buffers[k];
        m.first_cell.push_back(cells);
        cells += (b.bytes + b.granule - 1) / b.granule;
        for (u64 at = b.offset; at < b.offset + b.bytes; at += LINE) m.owner[at / LINE] = k + 1;
    }
    m.cells.assign(cells, Cell());
    m.locations.clear();
}

// In order, in reverse order, else in any.
void order_blocks(u32 n_blocks) {
    Machine& m = machine;
    m.order.resize(n_blocks);
    for (u32 k = 0; k < n_blocks; ++k) m.order[k] = k;
    if (m.options.seed % 8 == 1) std::reverse(m.order.begin(), m.order.end());
    if (m.options.seed % 8 < 2) return;
    for (u32 k = n_blocks; k > 1; --k) std::swap(m.order[k - 1], m.order[m.random.below(k)]);
}

void prepare(const Options& o) {
    Machine& m = machine;
    m.options = o;
    m.random.state = o.seed * 0x9e3779b97f4a7c15ull + 0x1234567;
    for (int warm_up = 0; warm_up < 4; ++warm_up) m.random.next();
    m.schedule = Schedule(o.seed % SCHEDULES);
    m.steps = m.stamp = m.started = 0;
    m.burst = m.live = 0;
    m.until_overtaken = OVERTAKEN_EVERY;
    m.fault = Fault::none;
    m.message.clear();
    m.runnable.clear();
    m.current = nullptr;
    m.threads_per_block = o.block[0] * o.block[1] * o.block[2];
    const u32 n_blocks = o.grid[0] * o.grid[1] * o.grid[2];
    m.n_threads = n_blocks * m.threads_per_block;
    order_blocks(n_blocks);
    const u32 resident = std::min(o.resident, n_blocks);
    const u64 windows[] = {0, 2, 20, 8}; // steps of every thread
    m.window = o.stale ? windows[m.random.below(4)] * resident * m.threads_per_block : 0;
    map_stacks(size_t(resident) * m.threads_per_block);
    m.slots.clear();
    for (u32 slot = 0; slot < resident; ++slot) m.slots.push_back(std::make_unique<Block>());
}

} // namespace

} // namespace emulator

using namespace emulator;

extern "C" {

// One launch from start to end; the code of what went wrong, or 0.
int emu_launch(const Options* options, void (**entries)(void**), const Image* images,
               void** arguments, char* arena, u64 arena_bytes, const Buffer* buffers,
               u32 n_buffers) {
    Machine& m = machine;
    m.entries = entries;
    m.images = images;
    m.arguments = arguments;
    m.arena = arena;
    m.arena_bytes = arena_bytes;
    lay_out(buffers, n_buffers);
    prepare(*options);
    run_machine();
    return int(m.fault);
}

const char* emu_message() {
    return machine.message.c_str();
}
unsigned long long emu_steps() {
    return machine.steps;
}

#define PLAIN(size)                                                                                \
    void __tsan_read##size(void* p) {                                                              \
        plain(p, size, Access::read, __builtin_return_address(0));                                 \
    }                                                                                              \
    void __tsan_write##size(void* p) {                                                             \
        plain(p, size, Access::write, __builtin_return_address(0));                                \
    }                                                                                              \
    void __tsan_unaligned_read##size(void* p) {                                                    \
        plain(p, size, Access::read, __builtin_return_address(0));                                 \
    }                                                                                              \
    void __tsan_unaligned_write##size(void* p) {                                                   \
        plain(p, size, Access::write, __builtin_return_address(0));                                \
    }                                                                                              \
    void __tsan_volatile_read##size(void* p) {                                                     \
        plain(p, size, Access::read, __builtin_return_address(0));                                 \
    }                                                                                              \
    void __tsan_volatile_write##size(void* p) {                                                    \
        plain(p, size, Access::write, __builtin_return_address(0));                                \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void* p, unsigned long size) {
    plain(p, size, Access::read, __builtin_return_address(0));
}
void __tsan_write_range(void* p, unsigned long size) {
    plain(p, size, Access::write, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
