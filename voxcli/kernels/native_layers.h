/* What stands between the products of a transformer layer, on a processor (native.h says how).

   A row's numbers are summed in LANES parts, number i in part i % LANES, so that the order does not
   depend on anything but the row's length.

   Letters: B rows, M rows or queries, N positions, D width, F feed-forward width, H query heads,
   G key/value heads, C head width. */

#ifndef VOX_NATIVE_LAYERS_H
#define VOX_NATIVE_LAYERS_H

#include "native_panels.h"

/* e^x for x in [-87, 88], which it is brought into; NaN stays NaN. With n the whole number nearest
   to x / ln 2 and r = x - n ln 2 it is 2^n e^r; ln 2 comes in two parts, whose first times n is
   exact. The polynomial is 3e-9 from e^r. */
ALWAYS_INLINE float exponential(int fused, float x) {
    const float whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    union { float number; uint32_t bits; } m, power;
    x = x > 88.0f ? 88.0f : x;
    x = x < -87.0f ? -87.0f : x;
    m.number = FMA(x, 0x1.715476p+0f, whole);
    float n = m.number - whole;
    float r = FMA(n, -0x1.63p-1f, x);
    r = FMA(n, 0x1.bd0106p-13f, r);
    float p = FMA(r, 0x1.6a23f6p-10f, 0x1.123a1ep-7f);
    p = FMA(p, r, 0x1.5558f2p-5f);
    p = FMA(p, r, 0x1.555492p-3f);
    p = FMA(p, r, 0x1.fffffcp-2f);
    p = FMA(p * r, r, r);
    power.bits = (m.bits + 127) << 23;
    return FMA(p, power.number, power.number);
}

ALWAYS_INLINE float dot(int fused, const float *a, const float *b, int64_t n) {
    float parts[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            parts[lane] = FMA(a[i + lane], b[i + lane], parts[lane]);
    for (int lane = 0; lane < n - i; lane++)
        parts[lane] = FMA(a[i + lane], b[i + lane], parts[lane]);
    return total(parts);
}

ALWAYS_INLINE void norm_rows(
    int fused, const float *x, float *sum, const float *weight, float *out, float scale, float eps,
    int64_t M, int64_t D) {
    for (int64_t m = 0; m < M; m++, x += D, out += D) {
        const float *row = x;
        if (sum) {
            INDEPENDENT
            for (int64_t i = 0; i < D; i++) sum[i] = FMA(scale, sum[i], x[i]);
            row = sum;
            sum += D;
        }
        const float factor = 1.0f / sqrtf(dot(fused, row, row, D) / (float)D + eps);
        INDEPENDENT
        for (int64_t i = 0; i < D; i++) out[i] = row[i] * factor * weight[i];
    }
}

ALWAYS_INLINE void swiglu_rows(int fused, const float *x, float *out, int64_t M, int64_t F) {
    for (int64_t m = 0; m < M; m++, x += 2 * F, out += F) {
        const float *gate = x, *up = x + F;
        INDEPENDENT
        for (int64_t i = 0; i < F; i++) {
            const float g = gate[i] < -100.0f ? -100.0f : gate[i]; /* where e^-g has its limit */
            out[i] = g / (1.0f + exponential(fused, -g)) * up[i];
        }
    }
}

/* Pairs of channels times cosine and sine; `out` may be `x`. */
ALWAYS_INLINE void rotate(int fused, float *out, const float *x, const float *rotation, int64_t C) {
    INDEPENDENT
    for (int64_t c = 0; c < C; c += 2) {
        const float real = x[c], imaginary = x[c + 1];
        out[c] = FMA(real, rotation[c], -(imaginary * rotation[c + 1]));
        out[c + 1] = FMA(real, rotation[c + 1], imaginary * rotation[c]);
    }
}

/* Scores to shares of 1, in place; there is room up to whole LANES behind the last of the N. */
ALWAYS_INLINE void softmax(int fused, float *scores, float scale, int64_t N) {
    float parts[LANES], most = scores[0];
    for (int64_t n = N; n % LANES; n++) scores[n] = most;
    for (int lane = 0; lane < LANES; lane++) parts[lane] = most;
    for (int64_t n = 0; n < N; n += LANES)
        for (int lane = 0; lane < LANES; lane++)
            parts[lane] = parts[lane] > scores[n + lane] ? parts[lane] : scores[n + lane];
    for (int lane = 0; lane < LANES; lane++) most = most > parts[lane] ? most : parts[lane];
    for (int64_t n = N; n % LANES; n++) scores[n] = -FLT_MAX / 2; /* a share of e^-87 */
    for (int lane = 0; lane < LANES; lane++) parts[lane] = 0;
    for (int64_t n = 0; n < N; n += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            scores[n + lane] = exponential(fused, scale * (scores[n + lane] - most));
            parts[lane] += scores[n + lane];
        }
    const float share = 1.0f / total(parts);
    INDEPENDENT
    for (int64_t n = 0; n < N; n++) scores[n] *= share;
}

/* out[C] = the sum of shares[n] times row n of `values`, rows `stride` numbers apart. */
ALWAYS_INLINE void mix(
    int fused, float *restrict out, const float *restrict shares, const float *restrict values,
    int64_t stride, int64_t N, int64_t C) {
    for (int64_t c = 0; c < C; c++) out[c] = 0;
    int64_t n = 0;
    for (; n + 4 <= N; n += 4, values += 4 * stride) {
        const float *v0 = values, *v1 = v0 + stride, *v2 = v1 + stride, *v3 = v2 + stride;
        const float s0 = shares[n], s1 = shares[n + 1], s2 = shares[n + 2], s3 = shares[n + 3];
        INDEPENDENT
        for (int64_t c = 0; c < C; c++)
            out[c] = FMA(s3, v3[c], FMA(s2, v2[c], FMA(s1, v1[c], FMA(s0, v0[c], out[c]))));
    }
    for (; n < N; n++, values += stride) {
        const float s = shares[n];
        INDEPENDENT
        for (int64_t c = 0; c < C; c++) out[c] = FMA(s, values[c], out[c]);
    }
}

/* Queries `first` .. `first + M` of a row on all its N positions, without a mask, for one key head.
   Keys are laid out [C, N] first, so that a vector is full of positions whatever C is. */
ALWAYS_INLINE void local_group(
    int fused, float *qkv, const float *rotation, float *keys, float *scores, float *out,
    float scale, int64_t g, int64_t N, int64_t first, int64_t M, int64_t H, int64_t G, int64_t C) {
    const int64_t width = (H + 2 * G) * C, group = H / G, W = (N + LANES - 1) / LANES * LANES;
    float *key = qkv + (H + g) * C, *queries = qkv + first * width + g * group * C;
    const float *values = key + G * C;
    for (int64_t n = 0; rotation && n < N; n++)
        rotate(fused, key + n * width, key + n * width, rotation + n * C, C);
    for (int64_t i = 0; rotation && i < M * group; i++) {
        float *query = queries + i / group * width + i % group * C;
        rotate(fused, query, query, rotation + (first + i / group) * C, C);
    }
    for (int64_t c = 0; c < C; c++)
        for (int64_t n = 0; n < W; n++) keys[c * W + n] = n < N ? key[n * width + c] : 0;
    for (int64_t i = 0; i < group * M * W; i++) scores[i] = 0;
    for (int64_t c = 0; c < C; c += 2) { /* C is even */
        const float *k0 = keys + c * W, *k1 = k0 + W;
        for (int64_t m = 0; m < M; m++)
            for (int64_t h = 0; h < group; h++) {
                const float *query = queries + m * width + h * C + c;
                float *own = scores + (m * group + h) * W;
                for (int64_t n = 0; n < W; n += LANES) {
                    INDEPENDENT
                    for (int lane = 0; lane < LANES; lane++)
                        own[n + lane] = FMA(query[1], k1[n + lane],
                                            FMA(query[0], k0[n + lane], own[n + lane]));
                }
            }
    }
    for (int64_t m = 0; m < M; m++)
        for (int64_t h = 0; h < group; h++) {
            float *own = scores + (m * group + h) * W;
            softmax(fused, own, scale, N);
            mix(fused, out + (m * H + g * group + h) * C, own, values, width, N, C);
        }
}

ALWAYS_INLINE void local_rows(
    int fused, float *qkv, const float *rotation, float *keys, float *scores, float *out,
    float scale, int64_t B, int64_t N, int64_t first, int64_t M, int64_t H, int64_t G, int64_t C) {
    for (int64_t b = 0; b < B; b++, qkv += N * (H + 2 * G) * C, out += M * H * C)
        for (int64_t g = 0; g < G; g++)
            local_group(
                fused, qkv, rotation, keys, scores, out, scale, g, N, first, M, H, G, C);
}

/* Where one position of each row goes, and all before it are. */
typedef struct {
    const float *rotations; /* [positions, C], or none */
    float *keys, *values;   /* [slots, G, N, C] */
    const int64_t *slots, *positions;
    int64_t N, H, G, C;
} Cache;

/* Rotates queries and keys of row b, and keeps its keys and values. */
ALWAYS_INLINE void keep_row(int fused, float *qkv, const Cache *cache, int64_t b) {
    const int64_t H = cache->H, G = cache->G, C = cache->C, position = cache->positions[b];
    if (cache->rotations)
        for (int64_t h = 0; h < H + G; h++)
            rotate(fused, qkv + h * C, qkv + h * C, cache->rotations + position * C, C);
    for (int64_t g = 0; g < G; g++) {
        const int64_t own = ((cache->slots[b] * G + g) * cache->N + position) * C;
        memcpy(cache->keys + own, qkv + (H + g) * C, C * sizeof(float));
        memcpy(cache->values + own, qkv + (H + G + g) * C, C * sizeof(float));
    }
}

/* Queries of row b on all its positions up to its own, for one key head. */
ALWAYS_INLINE void attend_group(
    int fused, const float *qkv, const Cache *cache, int64_t b, int64_t g, float *scores,
    float *out, float scale) {
    const int64_t G = cache->G, C = cache->C, group = cache->H / G, num = cache->positions[b] + 1;
    const int64_t start = (cache->slots[b] * G + g) * cache->N * C;
    const float *keys = cache->keys + start, *values = cache->values + start;
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t n = 0; n < num; n++)
            scores[n] = dot(fused, qkv + h * C, keys + n * C, C);
        softmax(fused, scores, scale, num);
        mix(fused, out + h * C, scores, values, C, num, C);
    }
}

ALWAYS_INLINE void attend_row(
    int fused, const float *qkv, const Cache *cache, int64_t b, float *scores, float *out,
    float scale) {
    for (int64_t g = 0; g < cache->G; g++)
        attend_group(fused, qkv, cache, b, g, scores, out, scale);
}

ALWAYS_INLINE void decode_rows(
    int fused, float *qkv, const float *rotations, float *keys, float *values,
    const int64_t *slots, const int64_t *positions, float *scores, float *out, float scale,
    int64_t B, int64_t N, int64_t H, int64_t G, int64_t C) {
    const Cache cache = {rotations, keys, values, slots, positions, N, H, G, C};
    for (int64_t b = 0; b < B; b++, qkv += (H + 2 * G) * C, out += H * C) {
        keep_row(fused, qkv, &cache, b);
        attend_row(fused, qkv, &cache, b, scores, out, scale);
    }
}

#if HAS_TWINS
/* A layer; H, G and C are its heads. */
typedef struct {
    Panels qkv, output, gate_up, down;
    const float *input_norm, *mlp_norm, *next_norm; /* [D]; the last is of what comes behind */
    const float *rotation;                          /* cosines beside sines [N, C], or none */
    int64_t D, F, H, G, C;
    float attention_scale, residual_scale, eps;
} Layer;
#endif

#endif
