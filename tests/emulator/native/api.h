// What compiled kernels call: the boundary between a kernel (built with -fsanitize=thread) and the
// runtime (built without).
#pragma once

extern "C" {

struct EmuDim {
    unsigned x, y, z;
};

enum EmuOrder { EMU_RELAXED, EMU_ACQUIRE, EMU_RELEASE, EMU_ACQ_REL };
enum EmuScope { EMU_BLOCK, EMU_DEVICE };
enum EmuCollective {
    EMU_SYNCWARP,
    EMU_ANY,
    EMU_ALL,
    EMU_BALLOT,
    EMU_SHFL,
    EMU_SHFL_UP,
    EMU_SHFL_DOWN,
    EMU_SHFL_XOR,
};
enum EmuReduction { EMU_PLAIN, EMU_OR, EMU_AND, EMU_COUNT };

// Constant within a thread.
EmuDim emu_thread_idx() __attribute__((const));
EmuDim emu_block_idx() __attribute__((const));
EmuDim emu_block_dim() __attribute__((const));
EmuDim emu_grid_dim() __attribute__((const));

// Ordered accesses of 4 or 8 bytes. A read-modify-write is emu_rmw_begin, which gives the old value,
// then emu_rmw_end with the new one; no other thread runs in between.
unsigned long long emu_load(const void* p, unsigned size, EmuOrder order);
void emu_store(void* p, unsigned long long value, unsigned size, EmuOrder order);
void emu_aligned(const void* p, unsigned size); // of an access in parts
unsigned long long emu_rmw_begin(void* p, unsigned size, const char* name);
void emu_rmw_end(void* p, unsigned long long value, unsigned size, bool writes);
void emu_fence(EmuScope scope);

// A load that the kernel declares to be of memory nobody writes during the launch.
void emu_cached_read(const void* p, unsigned size);

// Collectives of a warp and of a block. Barrier 0 with no count: all threads that have not exited.
unsigned long long emu_collective(EmuCollective kind, unsigned mask, unsigned long long value,
                                  int parameter, int width);
int emu_barrier(int id, int count, EmuReduction kind, int value);
unsigned emu_active_mask();

// Asynchronous copies of the calling thread: noted at their issue, made when it waits for their group,
// by what is called after emu_copy_waited, until that gives a copy of no bytes. `left`: of the latest
// groups.
struct EmuCopy {
    void* to;
    const void* from;
    unsigned size;
};
void emu_copy_issue(void* to, const void* from, unsigned size);
void emu_copy_commit();
EmuCopy emu_copy_waited(unsigned left);

void emu_pause();
unsigned long long emu_nanoseconds();
[[noreturn]] void emu_trap();
}
