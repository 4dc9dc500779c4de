// A pass over the rows of a triangle, each of which says a word once it has heard those of all rows that it
// depends on: for patterns in which neighbours are irregular.
#pragma once
#include "sync.cuh"

namespace gpuilu {

constexpr int CHUNK = 1024;

// said[i] = what `rule` makes of said[j] of all rows j that row i depends on, in the order of the entries: it is told
// `begin(i)`, `hear(said[j])` for each of them, and asked for `word()`, or, in an abandoned launch, for any
// `drained()`. Words are not zero; `said` is zero on entry. One thread a row; a block takes chunks of CHUNK consecutive
// rows (from the last row on for an upper triangle) by ticket, in the order in which rows can depend on each
// other. Blocks of CHUNK threads, any grid; all threads call it.
//
// Inside a chunk rows hand their words over through shared memory, between chunks through device
// memory. A word is its own ready mark (zero means "not yet"), a machine word stored once and read
// by relaxed polls: nothing else is communicated, so no fence is needed. No lane waits for another
// inside a diverged branch: every lane tries, then the warp votes.
// Progress: a chunk depends on itself and on chunks with smaller tickets, whose blocks are running.
// Source: the self-scheduled analysis that Li (2017), section 4.4, leaves open.
template <bool LOWER, class Rule>
__device__ void pass_by_chunk(int n, const int* indptr, const int* indices,
                              typename Rule::Word* said, Rule& rule, Launch launch) {
    using Word = typename Rule::Word;
    __shared__ Word local[CHUNK];
    __shared__ u32 shared_ticket;
    const int lane = threadIdx.x & 31;
    Patience patience;
    while (true) {
        __syncthreads(); // the chunk before is finished with `local`
        if (threadIdx.x == 0) shared_ticket = take_ticket(launch);
        local[threadIdx.x] = 0;
        __syncthreads();
        const long long first = (long long)shared_ticket * CHUNK;
        if (first >= n) return;
        const long long at = first + threadIdx.x;
        const int i = at >= n ? -1 : LOWER ? int(at) : n - 1 - int(at);
        int p = i < 0 ? 0 : indptr[i];
        const int end = i < 0 ? 0 : indptr[i + 1];
        if (i >= 0) rule.begin(i);
        const auto say = [&](Word word) {
            store_relaxed_shared(local + threadIdx.x, word);
            store_relaxed(said + i, word);
        };
        bool done = i < 0;
        while (true) {
            while (!done && p < end) {
                const int j = indices[p];
                const long long from_first = (LOWER ? j : n - 1 - j) - first;
                const Word found = from_first >= 0 ? load_relaxed_shared(local + from_first)
                                                   : load_relaxed(said + j);
                if (found == 0) break;
                rule.hear(found);
                ++p;
            }
            if (!done && p == end) {
                say(rule.word());
                done = true;
            }
            if (__all_sync(FULL_WARP, done)) break;
            if (patience.exhausted(launch, lane)) { // drain: dependents hear something
                if (!done) say(rule.drained());
                break;
            }
        }
    }
}

} // namespace gpuilu
