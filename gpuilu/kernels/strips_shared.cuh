// Gatherers of a strip that share out: the far entries of a step, few but of few of its rows, lie one after
// the other in the lanes, so that all of them are waited for at once.
#pragma once
#include "strips.cuh"

namespace gpuilu {

constexpr int SHARED_OUT = 1; // FAR of kernels whose gatherers share out

// Far entries of a step, LISTED of them in each lane; -1 where there are no more.
constexpr int LISTED = 2, MOST_LISTED = 32 * LISTED;

// The same beside the values that they have waited for, until each row's lane subtracts its own products. Not
// the products alone, for these are fused with the subtraction, as in all kinds of gatherers.
template <class V>
struct alignas(16) Terms {
    Pack<V, 2> term[MOST_LISTED + 4]; // read four at a time
};

template <class F>
__device__ void load_listed(const Strips<F>& T, int first, int last, Batch<F, LISTED>& batch,
                            int lane) {
#pragma unroll
    for (int e = 0; e < LISTED; ++e) {
        const int p = first + e * 32 + lane;
        batch.position[e] = p < last ? T.far_position[p] : -1;
        if (p < last) batch.value[e] = T.far_data[p];
    }
}

// s -= sum of the products `from` to `to`, in that order.
template <class V>
__device__ void subtract_terms(SharedAddress terms, int from, int to, V& s) {
    constexpr int AT_ONCE = 4;
    for (; __any_sync(FULL_WARP, from < to); from += AT_ONCE) {
        const SharedAddress at = terms + min(from, MOST_LISTED) * u32(2 * sizeof(V));
        Pack<V, 2> term[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            term[j] = read_shared_if<Pack<V, 2>>(from + j < to, at + j * u32(2 * sizeof(V)));
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            if (from + j < to) s = minus_product(s, term[j].v[0], term[j].v[1]);
    }
}

// s -= sum over the far entries of each row, of which g has the step's first.
template <class F, class V, int L>
__device__ void subtract_listed(const Strips<F>& T, const StepRows& step,
                                Gathered<F, V, L, LISTED, 1>& g, const Columns<V, 1>& on,
                                SharedAddress terms, Launch launch, Patience& patience, int lane) {
    const int last = step.last();
    for (int first = step.first(); first < last; first += MOST_LISTED) {
        const Pack<V, 1>* slot[LISTED];
        Pack<V, 1> value[LISTED];
        const u32 wanted = ask(g.batch, on, slot);
        await(slot, wanted, value, launch, patience, lane);
#pragma unroll
        for (int e = 0; e < LISTED; ++e)
            if (wanted >> e & 1u)
                write_shared(terms + (e * 32 + lane) * u32(2 * sizeof(V)),
                             Pack<V, 2>{V(g.batch.value[e]), value[e].v[0]});
        if (first + MOST_LISTED < last) load_listed(T, first + MOST_LISTED, last, g.batch, lane);
        __syncwarp(); // all terms are there
        subtract_terms(terms, max(step.begin - first, 0), min(step.end - first, MOST_LISTED),
                       g.s[0]);
        __syncwarp(); // and have been read
    }
}

// Steps g, g + gatherers, ... of the `count` steps of a strip, of which `begin` is the first.
template <bool UNIT, int K, class F, class V, int L>
__device__ void gather_listed(const Strips<F>& T, u32 count, u32 begin, u32 g, u32 gatherers,
                              const Columns<V, 1>& on, Hall& hall, Ring<V, L, 1> ring,
                              Terms<V>& own, Launch launch, Patience& patience, int lane) {
    const u32 last = begin + count;
    const SharedAddress terms = kept(shared_address(&own));
    Gathered<F, V, L, LISTED, 1> listed;
    StepRows current = load_ranges(T, load_extent<K>(T, begin + g, last), on, lane);
    StepRows next = load_ranges(T, load_extent<K>(T, begin + g + gatherers, last), on, lane);
    Extent later = load_extent<K>(T, begin + g + 2 * gatherers, last);
    load_listed(T, current.first(), current.last(), listed.batch, lane);
    load_rows<UNIT, K>(T, current, on, listed, lane);
    for (u32 q = g; q < count; q += gatherers) {
        subtract_listed(T, current, listed, on, terms, launch, patience, lane);
        if (!await_place(q, hall, ring, launch, patience, lane)) return;
        fill<UNIT>(T, q, current, listed, hall, ring, lane);
        // Only now: a poll would wait for all loads before it, and the sweeper for the filling.
        load_listed(T, next.first(), next.last(), listed.batch, lane);
        load_rows<UNIT, K>(T, next, on, listed, lane);
        current = next;
        next = load_ranges(T, later, on, lane);
        later = load_extent<K>(T, begin + q + 3 * gatherers, last);
    }
}

} // namespace gpuilu
