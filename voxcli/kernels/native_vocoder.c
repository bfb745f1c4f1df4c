/* The vocoder's elementwise and depthwise work on a processor, channels-last, over slot contexts.

   A row's channels are laid out flat, number t * C + c. What is one number a channel comes as a
   table of W numbers, W a multiple of C and of LANES, repeated so that vectors are full where C is
   small.

   Letters: B rows, T time steps, C channels, J context length, K taps, W table length. */

#include "native_panels.h"
#include "native_phases.h"

enum { K = 7 };

/* u + sin(u)^2. With m the whole number nearest to u / (pi / 2) and r = u - m pi / 2, sin(u)^2 is
   sin(r)^2 for even m and 1 - sin(r)^2 for odd ones. pi / 2 comes in three parts; products of the
   first two with m are exact up to m = 2^15. sin(r)^2 is a polynomial in r^2, 3e-8 from it for
   |r| <= pi / 4. sin(u)^2 is within 2e-7 up to |u| = 5e4; above, the error grows to 1, because a
   float no longer says where in the period it is. The limit of r^2 keeps the result finite for any
   finite u; infinity and NaN become NaN. */
ALWAYS_INLINE float bump(int fused, float u) {
    const float whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    union { float number; uint32_t bits; } m, half;
    m.number = FMA(u, 0x1.45f306p-1f, whole);
    float n = m.number - whole;
    float r = FMA(n, -0x1.92p+0f, u);
    r = FMA(n, -0x1.fbp-12f, r);
    r = FMA(n, -0x1.5110b4p-22f, r);
    float s = r * r;
    s = s > 0.63f ? 0.63f : s;
    float p = FMA(s, -0x1.850856p-9f, 0x1.6b37d0p-5f);
    p = FMA(p, s, -0x1.554fa6p-2f);
    p = FMA(p, s, 0x1.ffffd2p-1f);
    half.number = FMA(p, s, -0.5f);
    half.bits ^= m.bits << 31; /* odd m: the other sign */
    return u + (0.5f + half.number);
}

ALWAYS_INLINE void snake(
    int fused, float *restrict out, const float *restrict x, const float *restrict scale,
    const float *restrict shift, int64_t n) {
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = bump(fused, FMA(x[i], scale[i], shift[i]));
}

/* Up to LANES numbers of a dilated convolution; `step` numbers lie between taps. */
ALWAYS_INLINE void convolve_lanes(
    int fused, float *restrict out, const float *restrict x, const float *restrict taps,
    int64_t n, int64_t step, int is_snake) {
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float sum = FMA(taps[i], x[i], taps[i + K * LANES]);
        for (int k = 1; k < K; k++) sum = FMA(taps[i + k * LANES], x[i + k * step], sum);
        out[i] = is_snake ? bump(fused, sum) : sum;
    }
}

ALWAYS_INLINE void convolve(
    int fused, float *restrict out, const float *restrict x, const float *restrict taps,
    int64_t n, int64_t step, int is_snake) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES, taps += (K + 1) * LANES)
        convolve_lanes(fused, out + i, x + i, taps, LANES, step, is_snake);
    if (i < n) convolve_lanes(fused, out + i, x + i, taps, n - i, step, is_snake);
}

/* A part of a row, whose input goes behind its past in `padded`. */
ALWAYS_INLINE void depthwise_part(
    int fused, float *out, const float *x, const float *scale, const float *shift,
    const float *taps, float *padded, int64_t size, int64_t W, int64_t step) {
    float *present = padded + (K - 1) * step;
    for (int64_t i = 0; i < size; i += W) {
        const int64_t n = least(W, size - i);
        if (scale) {
            snake(fused, present + i, x + i, scale, shift, n);
            convolve(fused, out + i, padded + i, taps, n, step, 1);
        } else {
            memcpy(present + i, x + i, n * sizeof(float));
            convolve(fused, out + i, padded + i, taps, n, step, 0);
        }
    }
}

ALWAYS_INLINE void depthwise_rows(
    int fused, const float *x, const float *scale, const float *shift, float *contexts,
    const int64_t *slots, const float *taps, float *padded, float *out,
    int64_t B, int64_t T, int64_t C, int64_t W, int64_t dilation) {
    const int64_t size = T * C, step = dilation * C, past = (K - 1) * step;
    for (int64_t b = 0; b < B; b++, x += size, out += size) {
        float *context = contexts + slots[b] * past;
        memcpy(padded, context, past * sizeof(float));
        depthwise_part(fused, out, x, scale, shift, taps, padded, size, W, step);
        memcpy(context, padded + size, past * sizeof(float));
    }
}

ALWAYS_INLINE void pair_rows(
    int fused, const float *x, const float *scale, const float *shift, float *contexts,
    const int64_t *slots, float *line, float *out, int64_t B, int64_t T, int64_t C, int64_t W) {
    const int64_t size = T * C;
    const size_t row = C * sizeof(float);
    for (int64_t b = 0; b < B; b++, x += size) {
        float *context = contexts + slots[b] * C;
        memcpy(out, context, row);
        for (int64_t i = 0; i < size; i += W) {
            const int64_t n = least(W, size - i);
            snake(fused, line, x + i, scale, shift, n);
            for (int64_t c = 0; c < n; c += C, out += 2 * C) {
                memcpy(out + C, line + c, row);
                /* the present of this time step is the past of the next one, if there is one */
                memcpy(i + c + C < size ? out + 2 * C : context, line + c, row);
            }
        }
    }
}

/* What a last convolution to one channel sums: K time steps are K * C numbers side by side. The
   sum is in LANES parts; behind `taps` and `padded` zeros fill the last of them. */
ALWAYS_INLINE void last_rows(
    int fused, const float *x, const float *scale, const float *shift, float *contexts,
    const int64_t *slots, const float *taps, float bias, float *padded, float *out,
    int64_t B, int64_t T, int64_t C, int64_t W) {
    const int64_t size = T * C, past = (K - 1) * C;
    float *present = padded + past;
    memset(present + size, 0, LANES * sizeof(float));
    for (int64_t b = 0; b < B; b++, x += size, out += T) {
        float *context = contexts + slots[b] * past;
        memcpy(padded, context, past * sizeof(float));
        for (int64_t i = 0; i < size; i += W)
            snake(fused, present + i, x + i, scale, shift, least(W, size - i));
        for (int64_t t = 0; t < T; t++) {
            const float *window = padded + t * C;
            float sums[LANES] = {0};
            for (int64_t i = 0; i < K * C; i += LANES)
                for (int lane = 0; lane < LANES; lane++)
                    sums[lane] = FMA(taps[i + lane], window[i + lane], sums[lane]);
            out[t] = bias + total(sums);
        }
        memcpy(context, padded + size, past * sizeof(float));
    }
}

/* Snake with `scale` and `shift` [W] where they are given, behind the slot's context [J, C], then
   the convolution, then Snake again where there was one before. taps: [W / LANES, K + 1, LANES],
   the bias last, so that they are read in their order.
   x, out: [B, T, C]; contexts: [slots, J, C]; padded: scratch of (J + T) * C. */
DEFINE(
    vox_depthwise, depthwise_rows,
    (const float *x, const float *scale, const float *shift, float *contexts, const int64_t *slots,
     const float *taps, float *padded, float *out,
     int64_t B, int64_t T, int64_t C, int64_t W, int64_t dilation),
    x, scale, shift, contexts, slots, taps, padded, out, B, T, C, W, dilation)

/* Snake, each time step beside the one before it. x: [B, T, C]; contexts: [slots, 1, C];
   line: scratch of W; out: [B, T, 2 C]. */
DEFINE(
    vox_pairs, pair_rows,
    (const float *x, const float *scale, const float *shift, float *contexts, const int64_t *slots,
     float *line, float *out, int64_t B, int64_t T, int64_t C, int64_t W),
    x, scale, shift, contexts, slots, line, out, B, T, C, W)

/* Snake and a convolution to one channel. x: [B, T, C]; contexts: [slots, K - 1, C];
   taps: [K * C] and zeros up to whole LANES; padded: scratch of (K - 1 + T) * C + LANES;
   out: [B, T]. */
DEFINE(
    vox_last, last_rows,
    (const float *x, const float *scale, const float *shift, float *contexts, const int64_t *slots,
     const float *taps, float bias, float *padded, float *out,
     int64_t B, int64_t T, int64_t C, int64_t W),
    x, scale, shift, contexts, slots, taps, bias, padded, out, B, T, C, W)

#if HAS_TWINS
/* What `vox_depthwise` takes, and a product [C, C] behind it. */
typedef struct {
    const float *scale, *shift, *taps;
    Panels product; /* added to what it is given */
    int64_t dilation;
} Unit;

enum { MOST_UNITS = 16 };

/* A call of `vox_units`; each row's T time steps are cut into `num_cuts`. */
typedef struct {
    float *x;
    const Unit *units;
    float *const *contexts;
    const int64_t *slots;
    float *scratch;
    int64_t num_units, B, T, C, W, part, longest, num_cuts, num_joined;
    Phase phases[2 * MOST_UNITS];
} UnitsCall;

/* What stands before time step `start` of a row once it went through Snake. */
ALWAYS_INLINE void look_back(
    int fused, float *past, const float *x, const Unit *unit, const float *context, int64_t start,
    int64_t C, int64_t W) {
    const int64_t size = (K - 1) * unit->dilation * C, there = least(size, start * C);
    memcpy(past, context + there, (size - there) * sizeof(float));
    past += size - there;
    x += start * C - there;
    for (int64_t i = 0; i < there; i += W)
        snake(fused, past + i, x + i, unit->scale, unit->shift, least(W, there - i));
}

/* `depthwise_rows` of a part of a row at a time, and each part's product added to x, so that all of
   it stays in the near caches. */
ALWAYS_INLINE void unit_steps(
    int fused, Multiply *multiply, float *x, const Unit *unit, const float *past, float *padded,
    float *inner, int64_t size, int64_t C, int64_t W, int64_t part) {
    const int64_t step = unit->dilation * C, before = (K - 1) * step;
    memcpy(padded, past, before * sizeof(float));
    for (int64_t start = 0; start < size; start += part) {
        const int64_t length = least(part, size - start);
        depthwise_part(
            fused, inner, x + start, unit->scale, unit->shift, unit->taps, padded, length, W, step);
        multiply(&unit->product, inner, x + start, length / C, 0, C);
        memmove(padded, padded + length, before * sizeof(float));
    }
}

ALWAYS_INLINE void unit_rows(int fused, Multiply *multiply, UnitsCall *call) {
    const int64_t B = call->B, T = call->T, C = call->C, cuts = call->num_cuts, num = B * cuts;
    const int64_t own = __atomic_fetch_add(&call->num_joined, 1, __ATOMIC_RELAXED);
    float *pasts = call->scratch;
    float *padded = pasts + num * call->longest + own * (call->longest + 2 * call->part);
    float *inner = padded + call->longest + call->part;
    for (int64_t i = 0; i < call->num_units; i++) {
        const Unit *unit = call->units + i;
        const int64_t before = (K - 1) * unit->dilation * C;
        Phase *phase = call->phases + 2 * i;
        TAKE(j, phase, num) {
            const int64_t b = j / cuts, start = T * (j % cuts) / cuts;
            look_back(
                fused, pasts + j * call->longest, call->x + b * T * C, unit,
                call->contexts[i] + call->slots[b] * before, start, C, call->W);
        }
        wait_for(phase++, num); /* x is added to from here on */
        TAKE(j, phase, num) {
            const int64_t b = j / cuts, cut = j % cuts;
            const int64_t start = T * cut / cuts, stop = T * (cut + 1) / cuts;
            unit_steps(
                fused, multiply, call->x + (b * T + start) * C, unit, pasts + j * call->longest,
                padded, inner, (stop - start) * C, C, call->W, call->part);
            if (cut == cuts - 1)
                memcpy(
                    call->contexts[i] + call->slots[b] * before, padded, before * sizeof(float));
        }
        wait_for(phase, num);
    }
}

#define DEFINE_UNITS(twin, target)                                                                 \
    target static void units_##twin(void *call) { unit_rows(1, multiply_columns_##twin, call); }
DEFINE_UNITS(avx2, AVX2)
DEFINE_UNITS(avx512, AVX512)
#endif

/* What `vox_depthwise` makes of x, times a weight, plus bias, added to x in place; one `Unit` of
   `num_units`, no more than MOST_UNITS, behind the other. x: [B, T, C], each row's time cut into
   `num_cuts` for the threads; contexts: of each unit [slots, J, C], the longest with `longest`
   numbers a slot; weights in fp32 panels of vectors of `vector` numbers, as many as `vox_vector`
   said; part: numbers that a thread has in work, a multiple of W; scratch: B num_cuts longest, and
   for each thread longest + 2 part. */
API void vox_units(
    float *x, const void *units, float *const *contexts, const int64_t *slots, float *scratch,
    Parallel *parallel, int64_t num_units, int64_t B, int64_t T, int64_t C, int64_t W, int64_t part,
    int64_t longest, int64_t num_cuts, int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    UnitsCall call = {
        x, units, contexts, slots, scratch, num_units, B, T, C, W, part, longest, num_cuts, 0,
        {{0}}};
    run_in(parallel, num_threads, vector == 16 ? units_avx512 : units_avx2, &call);
#endif
}
