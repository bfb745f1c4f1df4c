/* Products of a few rows with weights in half precision, on an x86-64 processor with AVX2.

   Sums are fp32, each one chain over K from its first number to its last, whatever M is: what
   FBGEMM's blocks of three to six rows do, so that either may stand for the other.

   Letters: M rows, K in, N out. */

#include "native.h"

enum { COLUMNS = 16, MAX_ROWS = 6, MAX_PANELS = 4 };

#if HAS_AVX2_TWIN
#include <immintrin.h>
#define F16C __attribute__((target("avx2,fma,f16c"))) /* there is no AVX2 without F16C */

/* Sums stay in registers only where their loops are unrolled. */
#define UNROLL _Pragma("GCC unroll 8")

/* `rows` and `panels` are constants; rows * panels * 2 sums and a few more fill the registers. */
F16C ALWAYS_INLINE void tile(
    const int rows, const int panels, const float *x, const uint16_t *weight, const float *bias,
    float *y, int64_t n, int64_t N, int64_t K) {
    __m256 sums[MAX_ROWS][2 * MAX_PANELS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < 2 * panels; i++) sums[r][i] = _mm256_setzero_ps();
    }
    for (int64_t k = 0; k < K; k++, weight += COLUMNS) {
        __m256 w[2 * MAX_PANELS];
        UNROLL
        for (int i = 0; i < 2 * panels; i++) {
            const uint16_t *half = weight + i / 2 * K * COLUMNS + i % 2 * 8;
            w[i] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half));
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const __m256 number = _mm256_broadcast_ss(x + r * K + k);
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
            if (bias) sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + n));
            _mm256_storeu_ps(y + r * N + n, sum);
        }
        n += 8;
    }
}

F16C ALWAYS_INLINE void block(
    const int rows, const int panels, const float *x, const uint16_t *weight, const float *bias,
    float *y, int64_t N, int64_t K) {
    int64_t n = 0;
    for (; n + panels * COLUMNS <= N; n += panels * COLUMNS)
        tile(rows, panels, x, weight + n * K, bias, y, n, N, K);
    for (; n < N; n += COLUMNS) tile(rows, 1, x, weight + n * K, bias, y, n, N, K);
}

F16C static void product(
    const float *x, const uint16_t *weight, const float *bias, float *y,
    int64_t M, int64_t N, int64_t K) {
    switch (M) {
    case 1: block(1, 4, x, weight, bias, y, N, K); return;
    case 2: block(2, 2, x, weight, bias, y, N, K); return;
    case 3: block(3, 2, x, weight, bias, y, N, K); return;
    }
    /* a panel of weights is read once from afar, then from the nearest cache */
    for (int64_t n = 0; n < N; n += COLUMNS, weight += COLUMNS * K) {
        int64_t m = 0;
        for (; m + MAX_ROWS <= M; m += MAX_ROWS)
            tile(6, 1, x + m * K, weight, bias, y + m * N, n, N, K);
        switch (M - m) {
        case 1: tile(1, 1, x + m * K, weight, bias, y + m * N, n, N, K); break;
        case 2: tile(2, 1, x + m * K, weight, bias, y + m * N, n, N, K); break;
        case 3: tile(3, 1, x + m * K, weight, bias, y + m * N, n, N, K); break;
        case 4: tile(4, 1, x + m * K, weight, bias, y + m * N, n, N, K); break;
        case 5: tile(5, 1, x + m * K, weight, bias, y + m * N, n, N, K); break;
        }
    }
}
#endif

/* x W^T + bias, if there is one. x: [M, K]; weight: fp16 [N / COLUMNS, K, COLUMNS]; y: [M, N].
   Only where `vox_instructions` says AVX2. */
API void vox_product(
    const float *x, const uint16_t *weight, const float *bias, float *y,
    int64_t M, int64_t N, int64_t K) {
#if HAS_AVX2_TWIN
    product(x, weight, bias, y, M, N, K);
#endif
}
