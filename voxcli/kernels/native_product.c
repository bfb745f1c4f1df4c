/* Products of rows with weights in half precision, on an x86-64 processor with AVX2.

   Sums are fp32, each one chain over K from its first number to its last, whatever rows, columns and
   threads a product is cut into: a row's bits depend on nothing but that row.

   Letters: M rows, K in, N out. */

#include "native.h"

enum { COLUMNS = 16 };

/* OpenMP's own call: a function for each of so many threads. */
typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);

#if HAS_AVX2_TWIN
#include <immintrin.h>
#define F16C __attribute__((target("avx2,fma,f16c"))) /* there is no AVX2 without F16C */

/* Sums stay in registers only where their loops are unrolled. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum {
    MAX_ROWS = 6,
    MAX_PANELS = 4,
    DEPTH = 512,   /* of K at once: MAX_ROWS rows and a panel of it stay in the nearest cache */
    HEIGHT = 96,   /* of M at once: so many rows of DEPTH stay in the next one */
    PARTS = 4,     /* of a thread's columns, so that a late one leaves some to the others */
};

/* A product, cut into parts of its columns, of which `next` is the first that nobody has taken. */
typedef struct {
    const float *x;
    const uint16_t *weight;
    const float *bias;
    float *y;
    int64_t M, N, K, num_parts, next;
} Product;

/* `rows` by `panels`, both constants: their sums and a few more fill the registers. From column n
   on, over `depth` of K from k on. */
F16C ALWAYS_INLINE void tile(
    const int rows, const int panels, const Product *p, int64_t m, int64_t n, int64_t k,
    int64_t depth) {
    const int64_t K = p->K, N = p->N;
    const float *x = p->x + m * K + k;
    const uint16_t *weight = p->weight + n * K + k * COLUMNS;
    const float *bias = k + depth == K ? p->bias : 0;
    float *y = p->y + m * N + n;
    __m256 sums[MAX_ROWS][2 * MAX_PANELS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < 2 * panels; i++)
            sums[r][i] = k ? _mm256_loadu_ps(y + r * N + 8 * i) : _mm256_setzero_ps();
    }
    for (int64_t j = 0; j < depth; j++, x++, weight += COLUMNS) {
        __m256 w[2 * MAX_PANELS];
        UNROLL
        for (int i = 0; i < 2 * panels; i++) {
            const uint16_t *half = weight + i / 2 * K * COLUMNS + i % 2 * 8;
            w[i] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half));
        }
        UNROLL
        for (int i = 0; i < panels; i++) /* what comes next; behind the weight there is no harm */
            _mm_prefetch((const char *)(weight + (panels + i) * K * COLUMNS), _MM_HINT_T0);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const __m256 number = _mm256_broadcast_ss(x + r * K);
            UNROLL
            for (int i = 0; i < 2 * panels; i++)
                sums[r][i] = _mm256_fmadd_ps(number, w[i], sums[r][i]);
        }
    }
    UNROLL
    for (int i = 0; i < 2 * panels; i++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256 sum = sums[r][i];
            if (bias) sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + n + 8 * i));
            _mm256_storeu_ps(y + r * N + 8 * i, sum);
        }
    }
}

/* Few rows take several panels at once: with fewer sums each would wait for the one before. */
F16C static void tiles(
    int64_t rows, int64_t panels, const Product *p, int64_t m, int64_t n, int64_t k,
    int64_t depth) {
    switch (rows * MAX_PANELS + panels - 1) {
    case 1 * MAX_PANELS + 3: tile(1, 4, p, m, n, k, depth); return;
    case 1 * MAX_PANELS + 0: tile(1, 1, p, m, n, k, depth); return;
    case 2 * MAX_PANELS + 1: tile(2, 2, p, m, n, k, depth); return;
    case 2 * MAX_PANELS + 0: tile(2, 1, p, m, n, k, depth); return;
    case 3 * MAX_PANELS + 1: tile(3, 2, p, m, n, k, depth); return;
    case 3 * MAX_PANELS + 0: tile(3, 1, p, m, n, k, depth); return;
    case 4 * MAX_PANELS + 0: tile(4, 1, p, m, n, k, depth); return;
    case 5 * MAX_PANELS + 0: tile(5, 1, p, m, n, k, depth); return;
    case 6 * MAX_PANELS + 0: tile(6, 1, p, m, n, k, depth); return;
    }
}

/* Columns `first` to `stop` of rows `top` to `top + M`. A panel of weights is read once from afar
   for all of them. */
static void columns(const Product *p, int64_t top, int64_t M, int64_t first, int64_t stop) {
    const int64_t num_blocks = (M + MAX_ROWS - 1) / MAX_ROWS;
    const int64_t most = M == 1 ? 4 : M <= 3 ? 2 : 1, limit = num_blocks > 1 ? DEPTH : p->K;
    for (int64_t k = 0, depth; k < p->K; k += depth) {
        depth = least(limit, p->K - k);
        for (int64_t n = first, panels; n < stop; n += panels * COLUMNS) {
            panels = n + most * COLUMNS <= stop ? most : 1;
            for (int64_t b = 0; b < num_blocks; b++) {
                const int64_t m = M * b / num_blocks, rows = M * (b + 1) / num_blocks - m;
                tiles(rows, panels, p, top + m, n, k, depth);
            }
        }
    }
}

static void work(void *argument) {
    Product *p = argument;
    const int64_t num_panels = p->N / COLUMNS, parts = p->num_parts;
    int64_t i;
    while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < parts) {
        const int64_t first = num_panels * i / parts, stop = num_panels * (i + 1) / parts;
        for (int64_t m = 0; m < p->M; m += HEIGHT)
            columns(p, m, least(HEIGHT, p->M - m), first * COLUMNS, stop * COLUMNS);
    }
}
#endif

/* x W^T + bias, if there is one. x: [M, K]; weight: fp16 [N / COLUMNS, K, COLUMNS]; y: [M, N].
   Only where `vox_instructions` says AVX2. */
API void vox_product(
    const float *x, const uint16_t *weight, const float *bias, float *y, Parallel parallel,
    int64_t M, int64_t N, int64_t K, int64_t num_threads) {
#if HAS_AVX2_TWIN
    Product p = {x, weight, bias, y, M, N, K, num_threads > 1 ? PARTS * num_threads : 1, 0};
    if (num_threads > 1)
        parallel(work, &p, (unsigned)num_threads, 0);
    else
        work(&p);
#endif
}
