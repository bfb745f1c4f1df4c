/* A product in torch's own threads (native_panels.h says how).

   Letters: M rows, K in, N out. */

#include "native_panels.h"

/* OpenMP's own call: a function for each of so many threads. */
typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);

#if HAS_AVX2_TWIN
enum { PARTS = 4 }; /* of a thread's panels, so that a late one leaves some to the others */

/* A product, cut into parts of its columns, of which `next` is the first that nobody has taken. */
typedef struct {
    Panels panels;
    const float *x;
    float *y;
    int64_t M, num_parts, next;
} Product;

static void work(void *argument) {
    Product *p = argument;
    const int64_t Q = num_panels(&p->panels), parts = p->num_parts;
    int64_t i;
    while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < parts)
        multiply(&p->panels, p->x, p->y, p->M, Q * i / parts, Q * (i + 1) / parts);
}
#endif

/* x W^T + bias, if there is one. x: [M, K]; weight: panels, fp16 if `is_half`; y: [M, N].
   Only where `vox_instructions` says AVX2. */
API void vox_product(
    const float *x, const void *weight, const float *bias, float *y, Parallel parallel,
    int64_t M, int64_t N, int64_t K, int64_t is_half, int64_t num_threads) {
#if HAS_AVX2_TWIN
    const Panels panels = {weight, bias, N, K, (int)is_half, 0};
    Product p = {panels, x, y, M, num_threads > 1 ? PARTS * num_threads : 1, 0};
    if (num_threads > 1)
        parallel(work, &p, (unsigned)num_threads, 0);
    else
        work(&p);
#endif
}
