/* What stands between the products of a transformer layer, on a processor (native.h says how).

   A row's numbers are summed in LANES parts, number i in part i % LANES, so that the order does not
   depend on anything but the row's length.

   Letters: B rows, M rows or queries, N positions, D width, F feed-forward width, H query heads,
   G key/value heads, C head width. */

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

/* Queries `first` .. `first + M` of each row on all its N positions, without a mask. Keys are laid
   out [C, N] first, so that a vector is full of positions whatever C is. */
ALWAYS_INLINE void local_rows(
    int fused, float *qkv, const float *rotation, float *keys, float *scores, float *out,
    float scale, int64_t B, int64_t N, int64_t first, int64_t M, int64_t H, int64_t G, int64_t C) {
    const int64_t width = (H + 2 * G) * C, group = H / G, W = (N + LANES - 1) / LANES * LANES;
    for (int64_t b = 0; b < B; b++, qkv += N * width, out += M * H * C) {
        if (rotation)
            for (int64_t n = 0; n < N; n++)
                for (int64_t h = n < first || n >= first + M ? H : 0; h < H + G; h++)
                    rotate(fused, qkv + n * width + h * C, qkv + n * width + h * C,
                           rotation + n * C, C);
        for (int64_t g = 0; g < G; g++) {
            const float *key = qkv + (H + g) * C, *values = qkv + (H + G + g) * C;
            for (int64_t c = 0; c < C; c++)
                for (int64_t n = 0; n < W; n++) keys[c * W + n] = n < N ? key[n * width + c] : 0;
            const float *queries = qkv + first * width + g * group * C;
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
    }
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

/* Queries of row b on all its positions up to its own. */
ALWAYS_INLINE void attend_row(
    int fused, const float *qkv, const Cache *cache, int64_t b, float *scores, float *out,
    float scale) {
    const int64_t G = cache->G, C = cache->C, group = cache->H / G, num = cache->positions[b] + 1;
    for (int64_t g = 0; g < G; g++) {
        const int64_t start = (cache->slots[b] * G + g) * cache->N * C;
        const float *keys = cache->keys + start, *values = cache->values + start;
        for (int64_t h = g * group; h < (g + 1) * group; h++) {
            for (int64_t n = 0; n < num; n++)
                scores[n] = dot(fused, qkv + h * C, keys + n * C, C);
            softmax(fused, scores, scale, num);
            mix(fused, out + h * C, scores, values, C, num, C);
        }
    }
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

/* x + scale * sum into `sum` where it is given, else x alone; then
   y / sqrt(mean(y^2) + eps) * weight of that. x, sum, out: [M, D]; weight: [D]. */
DEFINE(
    vox_norm, norm_rows,
    (const float *x, float *sum, const float *weight, float *out, float scale, float eps,
     int64_t M, int64_t D),
    x, sum, weight, out, scale, eps, M, D)

/* silu(gate) * up; x: [M, 2 F], the gate first; out: [M, F]. */
DEFINE(
    vox_swiglu, swiglu_rows, (const float *x, float *out, int64_t M, int64_t F), x, out, M, F)

/* qkv: [B, N, (H + 2 G) C], its queries and keys are rotated in place; rotation: cosines beside
   sines [N, C], or none; keys: scratch of C * W, W being N up to whole LANES; scores: scratch of
   M * H / G * W; out: [B, M, H C]. */
DEFINE(
    vox_local_attention, local_rows,
    (float *qkv, const float *rotation, float *keys, float *scores, float *out, float scale,
     int64_t B, int64_t N, int64_t first, int64_t M, int64_t H, int64_t G, int64_t C),
    qkv, rotation, keys, scores, out, scale, B, N, first, M, H, G, C)

/* qkv: [B, (H + 2 G) C], rotated in place; rotations: [positions, C] or none;
   keys, values: [slots, G, N, C]; scores: scratch of N up to whole LANES; out: [B, H C]. */
DEFINE(
    vox_decode_attention, decode_rows,
    (float *qkv, const float *rotations, float *keys, float *values, const int64_t *slots,
     const int64_t *positions, float *scores, float *out, float scale,
     int64_t B, int64_t N, int64_t H, int64_t G, int64_t C),
    qkv, rotations, keys, values, slots, positions, scores, out, scale, B, N, H, G, C)

#if HAS_TWINS
/* A layer; H, G and C are its heads. */
typedef struct {
    Panels qkv, output, gate_up, down;
    const float *input_norm, *mlp_norm, *next_norm; /* [D]; the last is of what comes behind */
    const float *rotation;                          /* cosines beside sines [N, C], or none */
    int64_t D, F, H, G, C;
    float attention_scale, residual_scale, eps;
} Layer;

/* What threads share out: `next` is the first row that nobody has taken. */
typedef struct {
    int64_t num_rows, num_taken, next, scratch_size, next_scratch;
    float *scratch; /* of each thread */
} Shares;

/* The next rows for a thread, how many there are; 0 at the end. */
static int64_t take(Shares *shares, int64_t *row) {
    *row = __atomic_fetch_add(&shares->next, shares->num_taken, __ATOMIC_RELAXED);
    return *row < shares->num_rows ? least(shares->num_taken, shares->num_rows - *row) : 0;
}

static float *own_scratch(Shares *shares) {
    const int64_t i = __atomic_fetch_add(&shares->next_scratch, 1, __ATOMIC_RELAXED);
    return shares->scratch + i * shares->scratch_size;
}

static void share_out(
    void (*work)(void *), void *call, Shares *shares, Parallel *parallel, int64_t num_threads) {
    shares->next = shares->next_scratch = 0;
    run_in(parallel, num_threads, work, call);
}

/* What a layer does behind its attention, to n times M rows; M of x lie side by side, `step` numbers
   behind those before. scratch: D, D, F and 2 F numbers a row. */
ALWAYS_INLINE void finish_rows(
    int fused, Multiply *multiply, const Layer *l, const float *x, int64_t step,
    const float *attended, float *sums, float *out, float *scratch, int64_t n, int64_t M) {
    const int64_t D = l->D, F = l->F;
    float *mid = scratch, *normed = mid + n * M * D, *inner = normed + n * M * D;
    float *gate_up = inner + n * M * F;
    multiply(&l->output, attended, mid, n * M, 0, D);
    for (int64_t b = 0; b < n; b++)
        norm_rows(
            fused, x + b * step, mid + b * M * D, l->mlp_norm, normed + b * M * D,
            l->residual_scale, l->eps, M, D);
    multiply(&l->gate_up, normed, gate_up, n * M, 0, 2 * F);
    swiglu_rows(fused, gate_up, inner, n * M, F);
    multiply(&l->down, inner, sums, n * M, 0, D);
    norm_rows(fused, mid, sums, l->next_norm, out, l->residual_scale, l->eps, n * M, D);
}

/* A call of `vox_local_layer`. */
typedef struct {
    Shares shares;
    const Layer *layer;
    const float *x, *normed;
    float *known;
    const int64_t *changed;
    float *sums, *out;
    int64_t N, num_changed, first, M;
} LocalCall;

/* Queries, keys and values of n rows, from what the last call knew of them. */
ALWAYS_INLINE void project_again(
    int fused, Multiply *multiply, const LocalCall *call, int64_t row, int64_t n, float *qkv,
    float *normed, float *some) {
    const Layer *l = call->layer;
    const int64_t N = call->N, D = l->D, W = l->qkv.N;
    const int64_t num = call->changed ? call->num_changed : N;
    float *known = call->known + row * N * W;
    for (int64_t b = 0; b < n; b++)
        for (int64_t i = 0; i < num; i++) {
            const int64_t at = call->changed ? call->changed[i] : i;
            norm_rows(
                fused, call->x + ((row + b) * N + at) * D, NULL, l->input_norm,
                normed + (b * num + i) * D, 1.0f, l->eps, 1, D);
        }
    multiply(&l->qkv, normed, call->changed ? some : known, n * num, 0, W);
    for (int64_t b = 0; call->changed && b < n; b++)
        for (int64_t i = 0; i < num; i++)
            memcpy(
                known + (b * N + call->changed[i]) * W, some + (b * num + i) * W,
                W * sizeof(float));
    memcpy(qkv, known, n * N * W * sizeof(float));
}

/* The same of what is normed; queries only where somebody reads. */
ALWAYS_INLINE void project(
    Multiply *multiply, const LocalCall *call, int64_t row, int64_t n, float *qkv, float *asking,
    float *some) {
    const Layer *l = call->layer;
    const int64_t N = call->N, D = l->D, W = l->qkv.N, M = call->M, queries = l->H * l->C;
    const float *normed = call->normed + row * N * D;
    multiply(&l->qkv, normed, qkv, n * N, M < N ? queries : 0, W);
    if (M == N) return;
    for (int64_t b = 0; b < n; b++)
        memcpy(asking + b * M * D, normed + (b * N + call->first) * D, M * D * sizeof(float));
    multiply(&l->qkv, asking, some, n * M, 0, queries);
    for (int64_t i = 0; i < n * M; i++)
        memcpy(
            qkv + (i / M * N + call->first + i % M) * W, some + i * W, queries * sizeof(float));
}

ALWAYS_INLINE void local_layer(int fused, Multiply *multiply, LocalCall *call) {
    const Layer *l = call->layer;
    const int64_t N = call->N, D = l->D, M = call->M, W = l->qkv.N, heads = l->H * l->C;
    const int64_t longest = call->shares.num_taken * N, whole = (N + LANES - 1) / LANES * LANES;
    float *qkv = own_scratch(&call->shares), *attended = qkv + longest * W;
    float *keys = attended + longest * heads, *scores = keys + l->C * whole;
    float *rest = scores + M * l->H / l->G * whole;
    int64_t row, n;
    while ((n = take(&call->shares, &row))) {
        if (call->known)
            project_again(fused, multiply, call, row, n, qkv, rest, rest + longest * D);
        else
            project(multiply, call, row, n, qkv, rest, rest + longest * D);
        local_rows(
            fused, qkv, l->rotation, keys, scores, attended, l->attention_scale, n, N, call->first,
            M, l->H, l->G, l->C);
        finish_rows(
            fused, multiply, l, call->x + (row * N + call->first) * D, N * D, attended,
            call->sums + row * M * D, call->out + row * M * D, rest, n, M);
    }
}

/* A call of `vox_causal_layer`. */
typedef struct {
    Shares shares;
    const Layer *layer;
    Cache cache;
    const float *x, *normed;
    const int64_t *kept; /* rows that are read behind the layer, or none for all */
    float *qkv, *sums, *out;
} CausalCall;

ALWAYS_INLINE void keep_rows(int fused, Multiply *multiply, CausalCall *call) {
    const Layer *l = call->layer;
    const int64_t W = l->qkv.N;
    int64_t row, n;
    while ((n = take(&call->shares, &row))) {
        multiply(&l->qkv, call->normed + row * l->D, call->qkv + row * W, n, 0, W);
        for (int64_t b = row; b < row + n; b++)
            keep_row(fused, call->qkv + b * W, &call->cache, b);
    }
}

ALWAYS_INLINE void causal_layer(int fused, Multiply *multiply, CausalCall *call) {
    const Layer *l = call->layer;
    const int64_t D = l->D, heads = l->H * l->C;
    float *scores = own_scratch(&call->shares);
    float *attended = scores + (call->cache.N + LANES - 1) / LANES * LANES;
    float *some = attended + call->shares.num_taken * heads;
    float *rest = some + call->shares.num_taken * D;
    int64_t row, n;
    while ((n = take(&call->shares, &row))) {
        const float *x = call->kept ? some : call->x + row * D;
        for (int64_t i = 0; i < n; i++) {
            const int64_t b = call->kept ? call->kept[row + i] : row + i;
            attend_row(
                fused, call->qkv + b * l->qkv.N, &call->cache, b, scores, attended + i * heads,
                l->attention_scale);
            if (call->kept) memcpy(some + i * D, call->x + b * D, D * sizeof(float));
        }
        finish_rows(
            fused, multiply, l, x, 0, attended, call->sums + row * D, call->out + row * D, rest, 1,
            n);
    }
}

#define DEFINE_LAYERS(twin, target)                                                                \
    target static void local_layer_##twin(void *call) {                                            \
        local_layer(1, multiply_columns_##twin, call);                                             \
    }                                                                                              \
    target static void keep_rows_##twin(void *call) {                                              \
        keep_rows(1, multiply_columns_##twin, call);                                               \
    }                                                                                              \
    target static void causal_layer_##twin(void *call) {                                           \
        causal_layer(1, multiply_columns_##twin, call);                                            \
    }
DEFINE_LAYERS(avx2, AVX2)
DEFINE_LAYERS(avx512, AVX512)
#endif

/* A layer whole over all N positions of each row, in torch's own threads, which take `num_taken` of
   B rows at once.

   layer: a `Layer`, its products in panels of vectors of `vector` numbers, as many as `vox_vector`
   said; x: [B, N, D]; normed: x after the layer's first norm, or none where `known` is given.
   known: [B, N, (H + 2 G) C], the queries, keys and values of the last call, which wrote them all
   or, where `changed` is given, those of these positions; then all others are as they were.
   Positions first .. first + M alone are read behind the layer: sums: [B, M, D]; out: [B, M, D],
   sums after the next norm.
   scratch: `scratch_size` numbers of each thread: for N positions of num_taken rows (H + 2 G) C,
   H C and the larger of 2 D + 3 F and D + (H + 2 G) C; C + M H / G times N up to whole LANES. */
API void vox_local_layer(
    const void *layer, const float *x, const float *normed, float *known, const int64_t *changed,
    float *sums, float *out, float *scratch, Parallel *parallel, int64_t B, int64_t N,
    int64_t num_changed, int64_t first, int64_t M, int64_t num_taken, int64_t scratch_size,
    int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    LocalCall call = {
        {B, num_taken, 0, scratch_size, 0, scratch}, layer, x, normed, known, changed, sums, out,
        N, num_changed, first, M};
    share_out(
        vector == 16 ? local_layer_avx512 : local_layer_avx2, &call, &call.shares, parallel,
        num_threads);
#endif
}

/* A layer whole over one position of each row; the same arguments as above and of
   `vox_decode_attention`. x, normed: [B, D]; kept: [E], the rows that are read behind the layer, or
   none for all; qkv: scratch of B (H + 2 G) C; sums, out: [E, D]; scratch: N up to whole LANES, and
   for num_taken rows H C, 3 D and 3 F. */
API void vox_causal_layer(
    const void *layer, const float *x, const float *normed, float *keys, float *values,
    const int64_t *slots, const int64_t *positions, const int64_t *kept, float *qkv, float *sums,
    float *out, float *scratch, Parallel *parallel, int64_t B, int64_t N, int64_t E,
    int64_t num_taken, int64_t scratch_size, int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    const Layer *l = layer;
    CausalCall call = {
        {B, num_taken, 0, scratch_size, 0, scratch}, l,
        {l->rotation, keys, values, slots, positions, N, l->H, l->G, l->C}, x, normed, kept, qkv,
        sums, out};
    share_out( /* all keys and values first: rows may read each other's */
        vector == 16 ? keep_rows_avx512 : keep_rows_avx2, &call, &call.shares, parallel,
        num_threads);
    call.shares.num_rows = E;
    share_out(
        vector == 16 ? causal_layer_avx512 : causal_layer_avx2, &call, &call.shares, parallel,
        num_threads);
#endif
}
