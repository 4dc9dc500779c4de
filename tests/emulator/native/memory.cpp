// Plain accesses: bounds, and the happens-before race detector.
#include <algorithm>

#include "runtime.h"

namespace emulator {

namespace {

bool ordered(const Thread& t, const Epoch& e) {
    return e.time == 0 || t.clock[e.thread] >= e.time;
}

[[noreturn]] void report(const void* p, const char* before, const Epoch& e, const char* now,
                         u32 code) {
    fail(Fault::race, "race on " + place_name(p) + ": " + now + " by " + name_of(*machine.current) +
                          " at " + code_name(code) + ", not ordered after the " + before + " by " +
                          name_of(e.thread) + " at " + code_name(e.code));
}

// Keep an access of its own: over an older one of this thread or one that happens before this, else
// over any.
void keep(Epoch (&kept)[Cell::READS], const Thread& t, const Epoch& e) {
    for (Epoch& k : kept)
        if (k.thread == t.id && k.time) {
            k = e;
            return;
        }
    for (Epoch& k : kept)
        if (ordered(t, k)) {
            k = e;
            return;
        }
    kept[machine.random.below(Cell::READS)] = e;
}

void forget(Epoch (&kept)[Cell::READS]) {
    for (Epoch& k : kept) k = Epoch();
}

void check_reads(const void* p, const Epoch (&kept)[Cell::READS], const char* before,
                 const char* now, u32 code) {
    for (const Epoch& k : kept)
        if (!ordered(*machine.current, k)) report(p, before, k, now, code);
}

void read(Cell& c, const void* p, const char* now, const Epoch& e) {
    const Thread& t = *machine.current;
    if (!ordered(t, c.write)) report(p, "plain store", c.write, now, e.code);
    if (!ordered(t, c.ordered_write)) report(p, "ordered store", c.ordered_write, now, e.code);
    keep(c.reads, t, e);
}

void cached_read(Cell& c, const void* p, const Epoch& e) {
    const Epoch& last = c.write.time ? c.write : c.ordered_write;
    if (last.time) report(p, "store", last, "__ldg (of memory that this launch writes)", e.code);
    c.cached = true;
    read(c, p, "__ldg", e);
}

void check_not_cached(const Cell& c, const void* p, const char* now, u32 code) {
    for (const Epoch& k : c.reads)
        if (c.cached && k.time)
            report(p, "__ldg (of memory that this launch writes)", k, now, code);
}

void write(Cell& c, const void* p, const Epoch& e) {
    const char* now = "plain store";
    const Thread& t = *machine.current;
    check_not_cached(c, p, now, e.code);
    if (!ordered(t, c.write)) report(p, "plain store", c.write, now, e.code);
    if (!ordered(t, c.ordered_write)) report(p, "ordered store", c.ordered_write, now, e.code);
    check_reads(p, c.reads, "plain load", now, e.code);
    check_reads(p, c.ordered_reads, "ordered load", now, e.code);
    c.write = e;
    c.location = 0; // earlier versions happen before this store
    forget(c.reads);
    forget(c.ordered_reads);
}

void ordered_read(Cell& c, const void* p, const Epoch& e) {
    const Thread& t = *machine.current;
    if (!ordered(t, c.write)) report(p, "plain store", c.write, "ordered load", e.code);
    keep(c.ordered_reads, t, e);
}

void ordered_write(Cell& c, const void* p, const Epoch& e) {
    const char* now = "ordered store";
    check_not_cached(c, p, now, e.code);
    if (!ordered(*machine.current, c.write)) report(p, "plain store", c.write, now, e.code);
    check_reads(p, c.reads, "plain load", now, e.code);
    c.ordered_write = e;
    forget(c.reads);
}

void note(Cell& c, const void* p, Access access, const Epoch& e) {
    switch (access) {
    case Access::read:
        return read(c, p, "plain load", e);
    case Access::cached_read:
        return cached_read(c, p, e);
    case Access::write:
        return write(c, p, e);
    case Access::ordered_read:
        return ordered_read(c, p, e);
    case Access::ordered_write:
        return ordered_write(c, p, e);
    }
}

[[noreturn]] void bad_address(const void* p, size_t size, const char* what, const char* why) {
    fail(Fault::address, std::string(what) + " of " + std::to_string(size) + " bytes at " +
                             place_name(p) + " by " + name_of(*machine.current) + ": " + why);
}

Place in_arena(const void* p, size_t size, const char* what) {
    Machine& m = machine;
    const u64 offset = u64((const char*)p - m.arena);
    const u32 owner = m.owner[offset / LINE];
    if (owner == 0) bad_address(p, size, what, "no array is there");
    const Buffer& b = m.buffers[owner - 1];
    const u64 within = offset - b.offset;
    if (within + size > b.bytes) bad_address(p, size, what, "beyond the end of the array");
    const u64 first = within / b.granule, last = (within + size - 1) / b.granule;
    return {&m.cells[m.first_cell[owner - 1] + first], u32(last - first + 1)};
}

Place in_shared(Block& b, const Image& image, const void* p, size_t size) {
    const u32 granule = machine.options.shared_granule;
    const u64 within = u64((const char*)p - image.shared);
    return {&b.shared[within / granule], u32((within + size - 1) / granule - within / granule + 1),
            true};
}

void check_written(const Place& place, const void* p, size_t size) {
    for (u32 k = 0; k < place.count; ++k)
        if (place.cell[k].write.time == 0 && place.cell[k].ordered_write.time == 0)
            bad_address(p, size, "load", "shared memory that nobody in the block has written");
}

} // namespace

// The places of an access; none for memory that only one thread can reach, or nobody can write.
Place locate(const void* p, size_t size, const char* what) {
    Machine& m = machine;
    const char* at = static_cast<const char*>(p);
    const Thread& t = *m.current;
    if (at >= m.stacks && at < m.stacks_end) {
        if (at < t.stack || at >= t.stack + STACK_BYTES)
            bad_address(p, size, what, "the local memory of another thread");
        return {};
    }
    if (at >= m.arena && at < m.arena + m.arena_bytes) return in_arena(p, size, what);
    Block& b = *t.block;
    const Image& image = m.images[b.slot];
    if (at >= image.shared && at + size <= image.end) return in_shared(b, image, p, size);
    if (at >= image.begin && at < image.end) return {};
    bad_address(p, size, what, "not an address of the device");
}

void note_access(const void* p, size_t size, Access access, u32 code) {
    Machine& m = machine;
    const bool writes = access == Access::write || access == Access::ordered_write;
    const Place place = locate(p, size, writes ? "store" : "load");
    if (access == Access::write && place.count) progress();
    if (!m.options.races) {
        if (access == Access::write)
            for (u32 k = 0; k < place.count; ++k) place.cell[k].location = 0;
        return;
    }
    if (place.shared && !writes) check_written(place, p, size);
    const Thread& t = *m.current;
    const Epoch e{t.id, t.clock[t.id], code};
    for (u32 k = 0; k < place.count; ++k) note(place.cell[k], p, access, e);
}

void join(Clock& into, const Clock& other) {
    for (size_t k = 0; k < other.size(); ++k) into[k] = std::max(into[k], other[k]);
}

// What a thread does from here on is not covered by what it has released.
void tick(Thread* t) {
    ++t->clock[t->id];
}

} // namespace emulator
