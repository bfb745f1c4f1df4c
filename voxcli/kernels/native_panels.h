/* Products of any number of rows with weights of any width, on x86-64 with AVX2 or AVX-512.

   A weight lies in panels of up to VECTORS vectors of columns, as even as they can be, each of all K
   rows; behind the last column there are zeros. It is fp32, or fp16 where that holds it. Sums are
   fp32, each one chain over K from its first number to its last, whatever rows, columns, threads
   and vectors a product is cut into: a row's bits depend on nothing but that row.

   native_panels.c has them once for vectors of 8 and once for those of 16.

   Letters: M rows, K in, N out. */

#ifndef VOX_NATIVE_PANELS_H
#define VOX_NATIVE_PANELS_H

#include "native.h"

#if HAS_TWINS
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

typedef void Multiply(
    const Panels *, const float *x, float *y, int64_t M, int64_t first, int64_t stop);

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

ALWAYS_INLINE int64_t num_vectors(const Panels *p, int64_t vector) {
    return (p->N + vector - 1) / vector;
}

ALWAYS_INLINE int64_t num_panels(const Panels *p, int64_t vector) {
    return (num_vectors(p, vector) + VECTORS - 1) / VECTORS;
}

/* Of M rows the panels from `first` to `stop`; or columns, and what shares a panel with them. */
extern HIDDEN Multiply multiply_avx2, multiply_avx512;
extern HIDDEN Multiply multiply_columns_avx2, multiply_columns_avx512;
#endif

#endif
