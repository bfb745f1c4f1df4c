/* A product in torch's own threads (native_panels.h says how).

   Letters: M rows, K in, N out. */

#include "native_panels.h"

#if HAS_TWINS
#include <immintrin.h>

enum { PARTS = 4 }; /* of a thread's panels, so that a late one leaves some to the others */

/* A product, cut into parts of its columns, of which `next` is the first that nobody has taken. */
typedef struct {
    Panels panels;
    const float *x;
    float *y;
    int64_t M, vector, num_parts, next;
} Product;

static void work(void *argument) {
    Product *p = argument;
    const int is_wide = p->vector == 16;
    const int64_t parts = p->num_parts;
    const int64_t Q = num_panels(&p->panels, p->vector);
    int64_t i;
    while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < parts)
        (is_wide ? multiply_avx512 : multiply_avx2)(
            &p->panels, p->x, p->y, p->M, Q * i / parts, Q * (i + 1) / parts);
}
#endif

/* x W^T + bias, if there is one. x: [M, K]; weight: panels of vectors of `vector` numbers, as
   many as `vox_vector` said, fp16 if `is_half`; y: [M, N]. */
API void vox_product(
    const float *x, const void *weight, const float *bias, float *y, Parallel *parallel,
    int64_t M, int64_t N, int64_t K, int64_t is_half, int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    const Panels panels = {weight, bias, N, K, (int)is_half, 0};
    Product p = {panels, x, y, M, vector, num_threads > 1 ? PARTS * num_threads : 1, 0};
    run_in(parallel, num_threads, work, &p);
#endif
}
