/* What was compiled, and for what. */

#include "native.h"

/* Of the sources; the loader compares it with the files beside it. */
API uint32_t vox_mark(void) { return SOURCE_MARK; }

/* Which of the two the functions below run. */
API const char *vox_instructions(void) {
#if HAS_AVX2_TWIN
    if (USE_AVX2()) return "AVX2";
#endif
    return "baseline";
}
