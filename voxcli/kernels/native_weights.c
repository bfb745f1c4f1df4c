/* Weights of a checkpoint to what the kernels read: panels of products (native_panels.h says how),
   and convolutions with their weight norm folded in. They run where products do.

   Letters: N rows, which are columns of a panel, K numbers of a row; C channels in, D out. */

#include "native_panels.h"

#if HAS_TWINS
#include <immintrin.h>

enum { SIDE = 8 }; /* rows and columns that are turned at once */

/* Numbers k to k + SIDE of SIDE rows, to those of SIDE columns that lie `step` bytes apart. */
AVX2 ALWAYS_INLINE void turn_halves(const __m128i *rows, char *out, int64_t step) {
    __m128i a[SIDE], b[SIDE];
    for (int i = 0; i < SIDE; i += 2) {
        a[i] = _mm_unpacklo_epi16(rows[i], rows[i + 1]);
        a[i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4)
        for (int half = 0; half < 2; half++) {
            b[i + 2 * half] = _mm_unpacklo_epi32(a[i + half], a[i + 2 + half]);
            b[i + 2 * half + 1] = _mm_unpackhi_epi32(a[i + half], a[i + 2 + half]);
        }
    for (int i = 0; i < SIDE / 2; i++) {
        const __m128i low = _mm_unpacklo_epi64(b[i], b[i + 4]);
        const __m128i high = _mm_unpackhi_epi64(b[i], b[i + 4]);
        _mm_storeu_si128((__m128i *)(out + 2 * i * step), low);
        _mm_storeu_si128((__m128i *)(out + (2 * i + 1) * step), high);
    }
}

AVX2 ALWAYS_INLINE void turn_floats(const __m256 *rows, char *out, int64_t step) {
    __m256 a[SIDE], b[SIDE];
    for (int i = 0; i < SIDE; i += 2) {
        a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4)
        for (int half = 0; half < 2; half++) {
            b[i + 2 * half] = _mm256_shuffle_ps(a[i + half], a[i + 2 + half], 0x44);
            b[i + 2 * half + 1] = _mm256_shuffle_ps(a[i + half], a[i + 2 + half], 0xee);
        }
    for (int i = 0; i < SIDE / 2; i++) {
        const __m256 low = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        const __m256 high = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
        _mm256_storeu_ps((float *)(out + i * step), low);
        _mm256_storeu_ps((float *)(out + (i + SIDE / 2) * step), high);
    }
}

/* Eight numbers of int8 times their row's scale, rounded to fp16. */
AVX2 ALWAYS_INLINE __m128i widen(const int8_t *from, float scale) {
    const __m128i eight = _mm_loadl_epi64((const __m128i *)from);
    const __m256 wide = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
    return _mm256_cvtps_ph(_mm256_mul_ps(wide, _mm256_set1_ps(scale)), 0); /* to nearest */
}

AVX2 ALWAYS_INLINE void pack_one(const void *row, float scale, char *out, int64_t k, int64_t bytes) {
    if (bytes == 4)
        memcpy(out, (const float *)row + k, 4);
    else if (bytes == 2)
        memcpy(out, (const uint16_t *)row + k, 2);
    else {
        const uint16_t half = _cvtss_sh((float)((const int8_t *)row)[k] * scale, 0);
        memcpy(out, &half, 2);
    }
}

AVX2 static void pack(
    const void *const *rows, const float *scale, char *out, int64_t N, int64_t K, int64_t bytes,
    int64_t first, int64_t stop) {
    const int64_t size = bytes == 4 ? 4 : 2, step = (stop - first) * size;
    for (int64_t n = first; n < stop; n += SIDE, out += SIDE * size) {
        const int64_t there = least(SIDE, N - n);
        int64_t k = 0;
        for (; there == SIDE && k + SIDE <= K; k += SIDE) {
            if (bytes == 4) {
                __m256 from[SIDE];
                for (int i = 0; i < SIDE; i++)
                    from[i] = _mm256_loadu_ps((const float *)rows[n + i] + k);
                turn_floats(from, out + k * step, step);
                continue;
            }
            __m128i from[SIDE];
            for (int i = 0; i < SIDE; i++)
                from[i] = bytes == 1
                    ? widen((const int8_t *)rows[n + i] + k, scale[n + i])
                    : _mm_loadu_si128((const __m128i *)((const uint16_t *)rows[n + i] + k));
            turn_halves(from, out + k * step, step);
        }
        for (; k < K; k++) {
            memset(out + k * step, 0, (size_t)(SIDE * size)); /* behind the last row */
            for (int64_t i = 0; i < there; i++)
                pack_one(rows[n + i], scale ? scale[n + i] : 0, out + k * step + i * size, k, bytes);
        }
    }
}

/* A row of a direction times its gain by its norm; returns that. */
AVX2 static float fold(const uint16_t *row, float gain, float *out, int64_t K) {
    __m256d sums[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    int64_t k = 0;
    for (; k + SIDE <= K; k += SIDE) {
        const __m256 eight = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + k)));
        const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(eight));
        const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1));
        _mm256_storeu_ps(out + k, eight);
        sums[0] = _mm256_fmadd_pd(low, low, sums[0]);
        sums[1] = _mm256_fmadd_pd(high, high, sums[1]);
    }
    double parts[4], sum = 0;
    _mm256_storeu_pd(parts, _mm256_add_pd(sums[0], sums[1]));
    for (; k < K; k++) {
        out[k] = _cvtsh_ss(row[k]);
        sum += (double)out[k] * out[k];
    }
    const float norm = (float)sqrt(sum + (parts[0] + parts[1]) + (parts[2] + parts[3]));
    const float factor = gain / norm;
    for (k = 0; k < K; k++) out[k] *= factor;
    return norm;
}

AVX2 static void fold_all(
    const uint16_t *weight, const float *gain, float *norm, float *out, int64_t N, int64_t K) {
    for (int64_t n = 0; n < N; n++) norm[n] = fold(weight + n * K, gain[n], out + n * K, K);
}

AVX2 static void fold_upsampling(
    const uint16_t *weight, const float *gain, const float *alpha, float *norm, float *line,
    float *out, int64_t C, int64_t D, int64_t stride, int64_t vector) {
    const int64_t N = stride * D, K = 2 * C;
    const int64_t vectors = (N + vector - 1) / vector, panels = (vectors + VECTORS - 1) / VECTORS;
    for (int64_t c = 0; c < C; c++, weight += 2 * N) {
        norm[c] = fold(weight, gain[c], line, 2 * N);
        for (int64_t i = 0; i < 2 * N; i++) line[i] /= alpha[c];
        for (int64_t is_present = 0; is_present < 2; is_present++) {
            const int64_t k = c + is_present * C;
            const float *from = line + (is_present ? 0 : stride);
            int64_t j = 0, d = 0; /* of column n */
            for (int64_t i = 0; i < panels; i++) {
                const int64_t first = vector * (vectors * i / panels);
                const int64_t width = vector * (vectors * (i + 1) / panels) - first;
                float *panel = out + first * K + k * width;
                for (int64_t n = 0; n < width; n++) {
                    panel[n] = j < stride ? from[2 * stride * d + j] : 0; /* behind the last */
                    if (++d == D) {
                        d = 0;
                        j++;
                    }
                }
            }
        }
    }
}
#endif

/* Rows of a weight to panels: rows: [N], where each begins; scale: [N], of int8 alone. `bytes` a
   number: 1 of int8, which becomes fp16, 2 of fp16, 4 of fp32; `vector` as `vox_vector` said. */
API void vox_pack(
    const void *const *rows, const float *scale, void *out, int64_t N, int64_t K, int64_t bytes,
    int64_t vector) {
#if HAS_TWINS
    const int64_t vectors = (N + vector - 1) / vector, panels = (vectors + VECTORS - 1) / VECTORS;
    for (int64_t i = 0; i < panels; i++) {
        const int64_t first = vector * (vectors * i / panels);
        const int64_t stop = vector * (vectors * (i + 1) / panels);
        char *panel = (char *)out + first * K * (bytes == 4 ? 4 : 2);
        pack(rows, scale, panel, N, K, bytes, first, stop);
    }
#endif
}

/* A direction of fp16 [N, K] times its gain [N] by its norm, which is summed in double precision
   and written too: norm: [N]; out: [N, K]. */
API void vox_fold(
    const uint16_t *weight, const float *gain, float *norm, float *out, int64_t N, int64_t K) {
#if HAS_TWINS
    fold_all(weight, gain, norm, out, N, K);
#endif
}

/* The same of a transposed convolution, [C, D, 2 stride], by `alpha` [C], to panels of a product
   over the step before and this one: column (j, d) is channel d of the j-th of `stride` outputs.
   line: [2 stride D]; out: [stride D, 2 C]. */
API void vox_fold_upsampling(
    const uint16_t *weight, const float *gain, const float *alpha, float *norm, float *line,
    float *out, int64_t C, int64_t D, int64_t stride, int64_t vector) {
#if HAS_TWINS
    fold_upsampling(weight, gain, alpha, norm, line, out, C, D, stride, vector);
#endif
}
