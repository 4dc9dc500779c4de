// Patches of rows grown along the dependencies, and strips of them: trsv/strips_grow.py has the rule, and says the
// same for a CPU.
#include "chunk.cuh"

namespace gpuilu {

// Where a row is: stage, level and group of the row that began its patch, and how deep in it, from one on. Words of a
// patch are alike but for the depth, and those of a stage lie side by side.
constexpr int STAGE_BIT = 48, LEVEL_BIT = 32, GROUP_BIT = 8;
constexpr u64 ONE_STAGE = u64(1) << STAGE_BIT;
__device__ inline u64 patch_of(u64 word) {
    return word >> GROUP_BIT;
}
__device__ inline u32 stage_of(u64 word) {
    return u32(word >> STAGE_BIT);
}
__device__ inline int group_of(u64 word) {
    return int(word >> GROUP_BIT & 0xffffffu);
}
__device__ inline u32 depth_of(u64 word) {
    return u32(word & 0xffu);
}

// began[i] = the word of row i were it to begin a patch in stage 0: `together` neighbours of a level are a
// group. One thread a row.
__global__ void begin_words(int n, int together, const int* level, const int* level_ptr,
                            const int* level_order, u64* began) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const int i = level_order[k], of = level[i];
    const u64 group = u64((k - level_ptr[of]) / together);
    began[i] = u64(of) << LEVEL_BIT | group << GROUP_BIT | 1u;
}

// A row joins the patch of those rows of the last stage that it depends on, if it is one, not too deep and not too
// far away; else it begins one in the next stage.
struct Growth {
    using Word = u64;
    const u64* began;
    u32 deepest;
    int reach;
    u64 mine;   // were it to begin a patch in stage 0
    u64 latest; // the largest of those in the last stage that it depends on, or zero
    bool one;   // whether these are all of one patch

    __device__ void begin(int i) {
        mine = began[i];
        latest = 0;
        one = true;
    }
    __device__ void hear(u64 found) {
        if (latest == 0 || stage_of(found) > stage_of(latest)) {
            latest = found;
            one = true;
        } else if (stage_of(found) == stage_of(latest)) {
            one = one && patch_of(found) == patch_of(latest);
            latest = found > latest ? found : latest;
        }
    }
    __device__ u64 word() const {
        if (latest == 0) return mine;
        const int away = group_of(mine) - group_of(latest);
        const bool joins = one && depth_of(latest) < deepest && away <= reach && -away <= reach;
        return joins ? latest + 1 : mine + (stage_of(latest) + u64(1)) * ONE_STAGE;
    }
    __device__ u64 drained() const { return mine; }
};

// word[i] of every row; zero on entry. How rows wait for each other, and what is launched: `pass_by_chunk`.
template <bool LOWER>
__global__ void __launch_bounds__(CHUNK)
    grow_patches(int n, int deepest, int reach, const int* indptr, const int* indices,
                 const u64* began, u64* word, Launch launch) {
    Growth rule{began, u32(deepest), reach, 0, 0, true};
    pass_by_chunk<LOWER>(n, indptr, indices, word, rule, launch);
}

// begins[k] = whether a patch does; `order` sorts the words. One thread a row.
__global__ void begin_patches(int n, const long long* order, const u64* word, int* begins) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) begins[k] = k == 0 || patch_of(word[order[k]]) != patch_of(word[order[k - 1]]);
}

// begins[k] = whether a strip does: with each stage, and with the first patch behind each multiple of `rows`.
// `patch` counts the patches up to each position, of which patch p begins at first[p - 1]. One thread a row.
__global__ void begin_strips(int n, int rows, const long long* order, const u64* word,
                             const int* patch, const int* first, int* begins) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const bool alone = k == 0 || stage_of(word[order[k]]) != stage_of(word[order[k - 1]]);
    begins[k] = alone || first[patch[k] - 1] / rows != first[patch[k - 1] - 1] / rows;
}

// strip[i] of every row, and told = {strips, stages}; `number` counts the strips up to each position. One thread a
// row.
__global__ void note_strips(int n, const long long* order, const u64* word, const int* number,
                            int* strip, int* told) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const long long i = order[k];
    strip[i] = number[k] - 1;
    if (k < n - 1) return;
    told[0] = number[k];
    told[1] = int(stage_of(word[i])) + 1;
}

} // namespace gpuilu
