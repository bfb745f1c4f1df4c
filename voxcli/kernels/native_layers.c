/* The parts of native_layers.h as calls of their own, and layers whole, whose rows are shared out. */

#include "native_layers.h"

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
