/* Products of any number of rows with weights of any width, on x86-64 with AVX2 or AVX-512.

   A weight lies in panels of up to VECTORS vectors of columns, as even as they can be, each of all K
   rows; behind the last column there are zeros. It is fp32, or fp16 where that holds it. Sums are
   fp32, each one chain over K from its first number to its last, whatever rows, columns, threads
   and vectors a product is cut into: a row's bits depend on nothing but that row.

   native_panels_twin.h is what all this is made of, once for vectors of 8 and once for those of 16.

   Letters: M rows, K in, N out. */

#ifndef VOX_NATIVE_PANELS_H
#define VOX_NATIVE_PANELS_H

#include "native.h"

#if HAS_TWINS
#include <immintrin.h>

/* Sums stay in registers only where their loops are unrolled. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Vectors of a panel; with TILE_ROWS of them each twin's registers are full of sums. HEIGHT of M at
   once: so many rows of DEPTH stay in the second cache. */
enum { VECTORS = 3, HEIGHT = 96 };

/* Multiply and add: y = x W^T + bias, on top of what y holds if `is_sum`. */
typedef struct {
    const void *weight;
    const float *bias; /* [N] and zeros up to a whole vector, or none */
    int64_t N, K;
    int is_half, is_sum;
} Panels;

/* What `multiply_columns` of either twin is. */
typedef void Multiply(const Panels *, const float *, float *, int64_t, int64_t, int64_t);

/* OpenMP's own call: a function for each of so many threads. */
typedef void Parallel(void (*)(void *), void *, unsigned, unsigned);

/* `work` on one call in so many threads, or in this one. */
static inline void run_in(
    Parallel *parallel, int64_t num_threads, void (*work)(void *), void *call) {
    if (num_threads > 1)
        parallel(work, call, (unsigned)num_threads, 0);
    else
        work(call);
}

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

#endif
