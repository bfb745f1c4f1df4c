/* The products of native_panels.h, for vectors of either width. */

#include "native_panels.h"

#if HAS_TWINS
#include <immintrin.h>

/* Sums stay in registers only where their loops are unrolled. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* TWIN: a name of this twin. TARGET: its instructions. VECTOR: numbers of a vector, of type
   VECTOR_TYPE. DEPTH of K at once: TILE_ROWS rows and a panel of it stay in the nearest cache. */
#define TWIN(name) name##_avx2
#define TARGET AVX2
#define VECTOR 8
#define VECTOR_TYPE __m256
#define TILE_ROWS 4
#define DEPTH 512
#include "native_panels_twin.h"

#define TWIN(name) name##_avx512
#define TARGET AVX512
#define VECTOR 16
#define VECTOR_TYPE __m512
#define TILE_ROWS 8
#define DEPTH 384
#include "native_panels_twin.h"
#endif
