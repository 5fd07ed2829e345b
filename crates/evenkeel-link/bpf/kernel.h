/* The language of BPF programs: types, the sections of an object, kinds of maps, and functions of the kernel. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define UINT(name, value) int(*name)[value]

enum { HASH = 1, ARRAY = 2, PROG_ARRAY = 3, PERCPU_HASH = 5, PERCPU_ARRAY = 6, LRU_HASH = 9, DEVMAP = 14, XSKMAP = 17 };
enum { NO_PREALLOC = 1, MMAPABLE = 1024 };

static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const monotonic)(void) = (void *)5;
static long (*const tail_call)(void *context, void *programs, u32 index) = (void *)12;
