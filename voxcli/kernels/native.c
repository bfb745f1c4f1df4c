/* What was compiled, and what of it runs. */

#include "native.h"

int vox_level = BASELINE;

/* Of the sources; the loader compares it with the files beside it. */
API uint32_t vox_mark(void) { return SOURCE_MARK; }

/* Has the functions below use up to `most`, as far as the processor goes; gives the level chosen. */
API int64_t vox_choose(int64_t most) {
    int level = BASELINE;
#if HAS_TWINS
    if (most >= WITH_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        level = WITH_AVX2;
    if (most >= WITH_AVX512 && level == WITH_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        level = WITH_AVX512;
#endif
    return vox_level = level;
}

/* Numbers of a vector in the panels of products; 0 where there are no products. */
API int64_t vox_vector(void) {
    return vox_level == WITH_AVX512 ? 16 : vox_level == WITH_AVX2 ? 8 : 0;
}
