/* Products of any number of rows with weights of any width, on an x86-64 processor with AVX2.

   A weight lies in panels of up to VECTORS vectors of columns, as even as they can be, each of all K
   rows; behind the last column there are zeros. It is fp32, or fp16 where that holds it. Sums are
   fp32, each one chain over K from its first number to its last, whatever rows, columns and threads
   a product is cut into: a row's bits depend on nothing but that row.

   Letters: M rows, K in, N out. */

#ifndef VOX_NATIVE_PANELS_H
#define VOX_NATIVE_PANELS_H

#include "native.h"

#if HAS_AVX2_TWIN
#include <immintrin.h>
#define PANELS __attribute__((target("avx2,fma,f16c"))) /* there is no AVX2 without F16C */

/* Sums stay in registers only where their loops are unrolled. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum {
    VECTOR = 8,
    VECTORS = 3,
    TILE_ROWS = 4, /* times VECTORS: with more sums the registers would not do */
    DEPTH = 512,   /* of K at once: TILE_ROWS rows and a panel of it stay in the nearest cache */
    HEIGHT = 96,   /* of M at once: so many rows of DEPTH stay in the next one */
};

/* Multiply and add: y = x W^T + bias, on top of what y holds if `is_sum`. */
typedef struct {
    const void *weight;
    const float *bias; /* [N] and zeros up to a whole vector, or none */
    int64_t N, K;
    int is_half, is_sum;
} Panels;

/* The first `n` of eight numbers; the others are not there. */
PANELS ALWAYS_INLINE __m256 load_some(const float *from, int64_t n) {
    if (n >= VECTOR) return _mm256_loadu_ps(from);
    float all[VECTOR] = {0};
    for (int64_t i = 0; i < n; i++) all[i] = from[i];
    return _mm256_loadu_ps(all);
}

PANELS ALWAYS_INLINE void store_some(float *to, __m256 numbers, int64_t n) {
    if (n >= VECTOR) {
        _mm256_storeu_ps(to, numbers);
        return;
    }
    __m128 four = _mm256_castps256_ps128(numbers);
    if (n & 4) {
        _mm_storeu_ps(to, four);
        four = _mm256_extractf128_ps(numbers, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)to, four);
        four = _mm_movehl_ps(four, four);
        to += 2;
    }
    if (n & 1) _mm_store_ss(to, four);
}

PANELS ALWAYS_INLINE __m256 load_weight(const int is_half, const char *from) {
    if (is_half) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
    return _mm256_loadu_ps((const float *)from);
}

/* `rows` by `panels` of `vectors`, all three constants; rows of x and y from their first on, columns
   from n on, `depth` of K from k on. */
PANELS ALWAYS_INLINE void tile(
    const int rows, const int panels, const int vectors, const int is_half, const Panels *p,
    const float *x, float *y, int64_t n, int64_t k, int64_t depth) {
    const int64_t K = p->K, N = p->N, size = is_half ? 2 : 4;
    const int64_t step = vectors * VECTOR * size, panel = K * step, num = panels * vectors;
    const int64_t last = N - n - VECTOR * (num - 1);
    const char *weight = (const char *)p->weight + n * K * size + k * step;
    __m256 sums[TILE_ROWS][3 * VECTORS];
    UNROLL
    for (int i = 0; i < num; i++) {
        const int64_t width = i < num - 1 ? VECTOR : last, at = VECTOR * i;
        const __m256 bias =
            k == 0 && p->bias ? _mm256_loadu_ps(p->bias + n + at) : _mm256_setzero_ps();
        UNROLL
        for (int r = 0; r < rows; r++) {
            sums[r][i] = bias;
            if (k > 0 || p->is_sum)
                sums[r][i] = _mm256_add_ps(load_some(y + r * N + at, width), bias);
        }
    }
    for (int64_t j = 0; j < depth; j++, x++, weight += step) {
        UNROLL
        for (int i = 0; i < panels; i++) /* what comes next; behind the weight there is no harm */
            _mm_prefetch(weight + (panels + i) * panel, _MM_HINT_T0);
        if (panels == 1) {
            __m256 w[VECTORS];
            UNROLL
            for (int i = 0; i < num; i++) w[i] = load_weight(is_half, weight + i * VECTOR * size);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const __m256 number = _mm256_broadcast_ss(x + r * K);
                UNROLL
                for (int i = 0; i < num; i++)
                    sums[r][i] = _mm256_fmadd_ps(number, w[i], sums[r][i]);
            }
        } else { /* more weights than rows */
            __m256 numbers[2];
            UNROLL
            for (int r = 0; r < rows; r++) numbers[r] = _mm256_broadcast_ss(x + r * K);
            UNROLL
            for (int i = 0; i < num; i++) {
                const __m256 w = load_weight(
                    is_half, weight + i / vectors * panel + i % vectors * VECTOR * size);
                UNROLL
                for (int r = 0; r < rows; r++)
                    sums[r][i] = _mm256_fmadd_ps(numbers[r], w, sums[r][i]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < num; i++)
            store_some(y + r * N + VECTOR * i, sums[r][i], i < num - 1 ? VECTOR : last);
    }
}

/* Few rows take several panels at once: with fewer sums each would wait for the one before. */
PANELS static void tiles(
    int64_t rows, int64_t panels, int64_t vectors, const Panels *p, const float *x, float *y,
    int64_t n, int64_t k, int64_t depth) {
#define TILE(r, q, v)                                                                              \
    case (r * 4 + q) * 4 + v:                                                                      \
        if (p->is_half)                                                                            \
            tile(r, q, v, 1, p, x, y, n, k, depth);                                                \
        else                                                                                       \
            tile(r, q, v, 0, p, x, y, n, k, depth);                                                \
        return;
    switch ((rows * 4 + panels) * 4 + vectors) {
        TILE(1, 3, 3) TILE(1, 1, 3) TILE(1, 1, 2) TILE(1, 1, 1)
        TILE(2, 2, 3) TILE(2, 1, 3) TILE(2, 1, 2) TILE(2, 1, 1)
        TILE(3, 1, 3) TILE(3, 1, 2) TILE(3, 1, 1)
        TILE(4, 1, 3) TILE(4, 1, 2) TILE(4, 1, 1)
    }
#undef TILE
}

ALWAYS_INLINE int64_t num_vectors(const Panels *p) { return (p->N + VECTOR - 1) / VECTOR; }
ALWAYS_INLINE int64_t num_panels(const Panels *p) {
    return (num_vectors(p) + VECTORS - 1) / VECTORS;
}

/* Panels `first` to `stop` of M rows. A panel is read once from afar for HEIGHT of them. */
PANELS static void multiply(
    const Panels *p, const float *x, float *y, int64_t M, int64_t first, int64_t stop) {
    const int64_t V = num_vectors(p), Q = num_panels(p), K = p->K, N = p->N;
    for (int64_t top = 0; top < M; top += HEIGHT) {
        const int64_t height = least(HEIGHT, M - top);
        const int64_t blocks = (height + TILE_ROWS - 1) / TILE_ROWS;
        const int64_t limit = blocks > 1 ? DEPTH : K, most = height == 1 ? 3 : height == 2 ? 2 : 1;
        for (int64_t k = 0, depth; k < K; k += depth) {
            depth = least(limit, K - k);
            for (int64_t i = first, panels; i < stop; i += panels) {
                const int64_t from = V * i / Q;
                panels = i + most <= stop && V * (i + most) / Q - from == most * VECTORS ? most : 1;
                const int64_t vectors = (V * (i + panels) / Q - from) / panels;
                for (int64_t b = 0; b < blocks; b++) {
                    const int64_t m = height * b / blocks, rows = height * (b + 1) / blocks - m;
                    tiles(
                        rows, panels, vectors, p, x + (top + m) * K + k,
                        y + (top + m) * N + VECTOR * from, VECTOR * from, k, depth);
                }
            }
        }
    }
}
#endif

#endif
