// Names for people: threads, places in memory, who waits for what. The driver replaces {buffer k} and
// {code k} by the name of an array and by a line of the kernel's source.
#include <map>

#include "runtime.h"

namespace emulator {

namespace {

constexpr size_t LINES = 60;

std::string number(u64 v) {
    return std::to_string(v);
}

std::string polled(const Thread& t) {
    if (t.stamp != machine.stamp || t.last_poll.address == nullptr) return "";
    char value[32];
    snprintf(value, sizeof value, "%#llx", static_cast<unsigned long long>(t.last_poll.value));
    return "polls " + place_name(t.last_poll.address) + " (" + value + ") at " +
           code_name(t.last_code);
}

std::string doing(const Thread& t) {
    const std::string poll = polled(t);
    if (t.state == State::running) return poll.empty() ? "runs" : poll;
    return missing_from(t) + (poll.empty() ? "" : "; " + poll);
}

std::string lanes_text(u32 lanes) {
    std::string text;
    for (u32 first = 0; first < WARP; ++first) {
        if (!(lanes >> first & 1u)) continue;
        u32 last = first;
        while (last + 1 < WARP && (lanes >> (last + 1) & 1u)) ++last;
        text +=
            (text.empty() ? "" : ",") + number(first) + (last > first ? "-" + number(last) : "");
        first = last;
    }
    return text;
}

void describe_warp(const Block& b, size_t w, std::vector<std::string>& lines) {
    std::map<std::string, u32> lanes;
    for (const Thread* t : b.warps[w].lane)
        if (t && t->state != State::exited) lanes[doing(*t)] |= 1u << t->lane;
    for (const auto& [text, mask] : lanes)
        lines.push_back("  block " + number(b.number) + " warp " + number(w) + " lanes " +
                        lanes_text(mask) + ": " + text);
}

} // namespace

std::string name_of(u32 thread) {
    const u32 size = machine.threads_per_block;
    return "thread " + number(thread % size) + " of block " + number(thread / size);
}

std::string name_of(const Thread& t) {
    return name_of(t.id);
}

std::string code_name(u32 code) {
    return "{code " + number(code) + "}";
}

std::string place_name(const void* p) {
    const Machine& m = machine;
    const char* at = static_cast<const char*>(p);
    if (at >= m.arena && at < m.arena + m.arena_bytes) {
        const u64 offset = u64(at - m.arena);
        size_t k = m.buffers.size();
        while (k > 0 && m.buffers[k - 1].offset > offset) --k;
        if (k > 0)
            return "{buffer " + number(k - 1) + "} + " + number(offset - m.buffers[k - 1].offset);
    }
    const Image& image = m.images[m.current ? m.current->block->slot : 0];
    if (at >= image.shared && at < image.end)
        return "shared memory + " + number(u64(at - image.shared));
    if (p == nullptr) return "the null pointer";
    char text[32];
    snprintf(text, sizeof text, "%p", p);
    return text;
}

std::string waiting_threads() {
    const Machine& m = machine;
    std::vector<std::string> lines;
    for (const auto& block : m.slots)
        for (size_t w = 0; w < block->warps.size(); ++w) describe_warp(*block, w, lines);
    std::string text;
    for (size_t k = 0; k < lines.size() && k < LINES; ++k) text += lines[k] + "\n";
    if (lines.size() > LINES) text += "  and " + number(lines.size() - LINES) + " more\n";
    const size_t waiting = m.order.size() - m.started;
    if (waiting)
        text += "  " + number(waiting) + " blocks have not started (" + number(m.slots.size()) +
                " fit at once)\n";
    return text;
}

} // namespace emulator
