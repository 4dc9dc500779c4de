// Relaxed, acquire and release accesses, atomics and fences: versions of a word, and who released
// what with them.
#include <cstring>

#include "runtime.h"

namespace emulator {

namespace {

constexpr size_t VERSIONS = 8;

u64 memory_at(const void* p, u32 size) {
    u64 value = 0;
    std::memcpy(&value, p, size);
    return value;
}

void check_aligned(const void* p, u32 size) {
    if (reinterpret_cast<size_t>(p) % size)
        fail(Fault::address,
             "misaligned ordered access to " + place_name(p) + " by " + name_of(*machine.current));
}

// The versions of a word of that size, if it has been stored in this launch.
Location* find(const Place& place, const void* p, u32 size) {
    if (place.count == 0 || place.cell->location == 0) return nullptr;
    Location& l = machine.locations[place.cell->location - 1];
    return l.address == p && l.size == size ? &l : nullptr;
}

Location& make(const Place& place, const void* p, u32 size) {
    if (Location* l = find(place, p, size)) return *l;
    machine.locations.push_back({p, size, 0, {{memory_at(p, size), Epoch(), 0, Released()}}});
    for (u32 k = 0; k < place.count; ++k) place.cell[k].location = u32(machine.locations.size());
    return machine.locations.back();
}

// The oldest version that the thread may still read.
size_t oldest_visible(const Location& l, u32 number, const Thread& t) {
    const Machine& m = machine;
    size_t oldest = 0;
    for (size_t k = l.versions.size(); k-- > 1;) {
        const Version& v = l.versions[k];
        const bool known = v.writer.time && t.clock[v.writer.thread] >= v.writer.time;
        if (known || v.step + m.window < m.steps) {
            oldest = k;
            break;
        }
    }
    const auto seen = t.seen.find(number);
    if (seen != t.seen.end() && seen->second > l.first + oldest) oldest = seen->second - l.first;
    return oldest;
}

const Version& visible_version(const Location& l, u32 number, Thread& t) {
    const size_t last = l.versions.size() - 1;
    size_t k = oldest_visible(l, number, t);
    if (k == last) return l.versions[last];
    if (machine.random.one_in(2)) k += machine.random.below(u32(last - k + 1));
    t.seen[number] = l.first + u32(k);
    return l.versions[k];
}

bool covers(const Released& r, const Thread& t) {
    return r.clock && (r.block < 0 || r.block == t.block->number);
}

void take(const Released& r, Thread& t, bool acquire) {
    if (!covers(r, t)) return;
    if (acquire) return join(t.clock, *r.clock);
    if (t.pending.empty()) t.pending.assign(t.clock.size(), 0);
    join(t.pending, *r.clock);
}

Released released_now(Thread& t) {
    Released r{std::make_shared<const Clock>(t.clock), -1};
    tick(&t);
    return r;
}

// A read-modify-write goes on with the release sequence that it reads from.
Released chained(const Released& earlier, const Released& own) {
    if (!earlier.clock || !own.clock) return earlier.clock ? earlier : own;
    auto both = std::make_shared<Clock>(*earlier.clock);
    join(*both, *own.clock);
    return {both, own.block < 0 ? earlier.block : own.block};
}

void push(const Place& place, void* p, u64 value, u32 size, Released released) {
    Machine& m = machine;
    Thread& t = *m.current;
    Location& l = make(place, p, size);
    if (memory_at(p, size) != value) progress();
    l.versions.push_back({value, {t.id, t.clock[t.id], 0}, m.steps, std::move(released)});
    if (l.versions.size() > VERSIONS) {
        l.versions.erase(l.versions.begin());
        ++l.first;
    }
    t.seen[u32(&l - m.locations.data())] = l.first + u32(l.versions.size()) - 1;
    std::memcpy(p, &value, size);
}

u64 read_modify_value;
u32 read_modify_code;

} // namespace

} // namespace emulator

using namespace emulator;

unsigned long long emu_load(const void* p, unsigned size, EmuOrder order) {
    const u32 code = CALLER;
    yield_point();
    Thread& t = *machine.current;
    note_access(p, size, Access::ordered_read, code);
    check_aligned(p, size);
    const Place place = locate(p, size, "load");
    u64 value = memory_at(p, size);
    if (const Location* l = find(place, p, size)) {
        const Version& v = visible_version(*l, place.cell->location - 1, t);
        take(v.released, t, order != EMU_RELAXED);
        value = v.value;
    }
    note_poll(&t, p, value, code);
    return value;
}

void emu_aligned(const void* p, unsigned size) {
    check_aligned(p, size);
}

void emu_store(void* p, unsigned long long value, unsigned size, EmuOrder order) {
    const u32 code = CALLER;
    yield_point();
    Thread& t = *machine.current;
    note_access(p, size, Access::ordered_write, code);
    check_aligned(p, size);
    const Place place = locate(p, size, "store");
    push(place, p, value, size, order == EMU_RELAXED ? t.fence : released_now(t));
}

unsigned long long emu_rmw_begin(void* p, unsigned size, const char*) {
    const u32 code = CALLER;
    yield_point();
    Thread& t = *machine.current;
    note_access(p, size, Access::ordered_read, code);
    check_aligned(p, size);
    const Location& l = make(locate(p, size, "load"), p, size);
    take(l.versions.back().released, t, false);
    read_modify_value = memory_at(p, size);
    read_modify_code = code;
    return read_modify_value;
}

void emu_rmw_end(void* p, unsigned long long value, unsigned size, bool writes) {
    Thread& t = *machine.current;
    if (!writes || value == read_modify_value)
        note_poll(&t, p, read_modify_value, read_modify_code);
    if (!writes) return;
    note_access(p, size, Access::ordered_write, read_modify_code);
    const Place place = locate(p, size, "store");
    const Location& l = make(place, p, size);
    push(place, p, value, size, chained(l.versions.back().released, t.fence));
}

void emu_fence(EmuScope scope) {
    yield_point();
    Thread& t = *machine.current;
    if (!t.pending.empty()) join(t.clock, t.pending);
    t.fence = released_now(t);
    if (scope == EMU_BLOCK) t.fence.block = t.block->number;
}

void emu_cached_read(const void* p, unsigned size) {
    note_access(p, size, Access::cached_read, CALLER);
}

void emu_copy_issue(void* to, const void* from, unsigned size) {
    machine.current->copies.back().push_back({to, from, size});
}

void emu_copy_commit() {
    machine.current->copies.emplace_back();
}

EmuCopy emu_copy_waited(unsigned left) {
    auto& groups = machine.current->copies;
    while (groups.size() > left + 1) {
        auto& oldest = groups.front();
        if (!oldest.empty()) {
            const EmuCopy copy = oldest.back();
            oldest.pop_back();
            return copy;
        }
        groups.erase(groups.begin());
    }
    return {};
}

void emu_pause() {
    yield_point();
}

unsigned long long emu_nanoseconds() {
    return machine.steps;
}

void emu_trap() {
    fail(Fault::trap, "__trap by " + name_of(*machine.current));
}

EmuDim emu_thread_idx() {
    return machine.current->index;
}
EmuDim emu_block_idx() {
    return machine.current->block->index;
}
EmuDim emu_block_dim() {
    const u32* b = machine.options.block;
    return {b[0], b[1], b[2]};
}
EmuDim emu_grid_dim() {
    const u32* g = machine.options.grid;
    return {g[0], g[1], g[2]};
}
