/* The products of native_panels.h, for the vectors that it names before each of two inclusions. */

#if VECTOR == 16
TARGET ALWAYS_INLINE __mmask16 TWIN(mask)(int64_t n) {
    return n >= VECTOR ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

/* The first `n` of a vector's numbers; the others are not there. */
TARGET ALWAYS_INLINE __m512 TWIN(load_some)(const float *from, int64_t n) {
    return _mm512_maskz_loadu_ps(TWIN(mask)(n), from);
}

TARGET ALWAYS_INLINE void TWIN(store_some)(float *to, __m512 numbers, int64_t n) {
    _mm512_mask_storeu_ps(to, TWIN(mask)(n), numbers);
}

TARGET ALWAYS_INLINE __m512 TWIN(load_weight)(const int is_half, const char *from) {
    if (is_half) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
    return _mm512_loadu_ps(from);
}

TARGET ALWAYS_INLINE __m512 TWIN(broadcast)(const float *from) { return _mm512_set1_ps(*from); }
TARGET ALWAYS_INLINE __m512 TWIN(fma)(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}
#else
TARGET ALWAYS_INLINE __m256 TWIN(load_some)(const float *from, int64_t n) {
    if (n >= VECTOR) return _mm256_loadu_ps(from);
    float all[VECTOR] = {0};
    for (int64_t i = 0; i < n; i++) all[i] = from[i];
    return _mm256_loadu_ps(all);
}

TARGET ALWAYS_INLINE void TWIN(store_some)(float *to, __m256 numbers, int64_t n) {
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

TARGET ALWAYS_INLINE __m256 TWIN(load_weight)(const int is_half, const char *from) {
    if (is_half) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
    return _mm256_loadu_ps((const float *)from);
}

TARGET ALWAYS_INLINE __m256 TWIN(broadcast)(const float *from) { return _mm256_set1_ps(*from); }
TARGET ALWAYS_INLINE __m256 TWIN(fma)(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}
#endif

/* `rows` by `panels` of `vectors`, all three constants; rows of x and y from their first on, columns
   from n on, `depth` of K from k on. */
TARGET ALWAYS_INLINE void TWIN(tile)(
    const int rows, const int panels, const int vectors, const int is_half, const Panels *p,
    const float *x, float *y, int64_t n, int64_t k, int64_t depth) {
    const int64_t K = p->K, N = p->N, size = is_half ? 2 : 4;
    const int64_t step = vectors * VECTOR * size, panel = K * step, num = panels * vectors;
    const int64_t last = N - n - VECTOR * (num - 1);
    const char *weight = (const char *)p->weight + n * K * size + k * step;
    VECTOR_TYPE sums[TILE_ROWS][3 * VECTORS];
    UNROLL
    for (int i = 0; i < num; i++) {
        const int64_t width = i < num - 1 ? VECTOR : last, at = VECTOR * i;
        VECTOR_TYPE bias = {0};
        if (k == 0 && p->bias) bias = TWIN(load_some)(p->bias + n + at, VECTOR);
        UNROLL
        for (int r = 0; r < rows; r++) {
            sums[r][i] = bias;
            if (k > 0 || p->is_sum) sums[r][i] += TWIN(load_some)(y + r * N + at, width);
        }
    }
    for (int64_t j = 0; j < depth; j++, x++, weight += step) {
        UNROLL
        for (int i = 0; i < panels; i++) /* what comes next; behind the weight there is no harm */
            _mm_prefetch(weight + (panels + i) * panel, _MM_HINT_T0);
        if (panels == 1) {
            VECTOR_TYPE w[VECTORS];
            UNROLL
            for (int i = 0; i < num; i++)
                w[i] = TWIN(load_weight)(is_half, weight + i * VECTOR * size);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const VECTOR_TYPE number = TWIN(broadcast)(x + r * K);
                UNROLL
                for (int i = 0; i < num; i++) sums[r][i] = TWIN(fma)(number, w[i], sums[r][i]);
            }
        } else { /* more weights than rows */
            VECTOR_TYPE numbers[2];
            UNROLL
            for (int r = 0; r < rows; r++) numbers[r] = TWIN(broadcast)(x + r * K);
            UNROLL
            for (int i = 0; i < num; i++) {
                const VECTOR_TYPE w = TWIN(load_weight)(
                    is_half, weight + i / vectors * panel + i % vectors * VECTOR * size);
                UNROLL
                for (int r = 0; r < rows; r++) sums[r][i] = TWIN(fma)(numbers[r], w, sums[r][i]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < num; i++)
            TWIN(store_some)(y + r * N + VECTOR * i, sums[r][i], i < num - 1 ? VECTOR : last);
    }
}

/* Few rows take several panels at once: with fewer sums each would wait for the one before. */
TARGET static inline void TWIN(tiles)(
    int64_t rows, int64_t panels, int64_t vectors, const Panels *p, const float *x, float *y,
    int64_t n, int64_t k, int64_t depth) {
#define TILE(r, q, v)                                                                              \
    case (r * 4 + q) * 4 + v:                                                                      \
        if (p->is_half)                                                                            \
            TWIN(tile)(r, q, v, 1, p, x, y, n, k, depth);                                          \
        else                                                                                       \
            TWIN(tile)(r, q, v, 0, p, x, y, n, k, depth);                                          \
        return;
    switch ((rows * 4 + panels) * 4 + vectors) {
        TILE(1, 3, 3) TILE(1, 1, 3) TILE(1, 1, 2) TILE(1, 1, 1)
        TILE(2, 2, 3) TILE(2, 1, 3) TILE(2, 1, 2) TILE(2, 1, 1)
        TILE(3, 1, 3) TILE(3, 1, 2) TILE(3, 1, 1)
        TILE(4, 1, 3) TILE(4, 1, 2) TILE(4, 1, 1)
#if TILE_ROWS == 8
        TILE(5, 1, 3) TILE(5, 1, 2) TILE(5, 1, 1)
        TILE(6, 1, 3) TILE(6, 1, 2) TILE(6, 1, 1)
        TILE(7, 1, 3) TILE(7, 1, 2) TILE(7, 1, 1)
        TILE(8, 1, 3) TILE(8, 1, 2) TILE(8, 1, 1)
#endif
    }
#undef TILE
}

/* Panels `first` to `stop` of M rows. A panel is read once from afar for HEIGHT of them. */
TARGET void TWIN(multiply)(
    const Panels *p, const float *x, float *y, int64_t M, int64_t first, int64_t stop) {
    const int64_t V = num_vectors(p, VECTOR), Q = num_panels(p, VECTOR), K = p->K, N = p->N;
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
                    TWIN(tiles)(
                        rows, panels, vectors, p, x + (top + m) * K + k,
                        y + (top + m) * N + VECTOR * from, VECTOR * from, k, depth);
                }
            }
        }
    }
}

/* Columns `first` to `stop`, and what shares a panel with them. */
TARGET void TWIN(multiply_columns)(
    const Panels *p, const float *x, float *y, int64_t M, int64_t first, int64_t stop) {
    const int64_t V = num_vectors(p, VECTOR), Q = num_panels(p, VECTOR);
    int64_t from = 0, to = Q;
    while (VECTOR * (V * (from + 1) / Q) <= first) from++;
    while (VECTOR * (V * (to - 1) / Q) >= stop) to--;
    TWIN(multiply)(p, x, y, M, from, to);
}

#undef TWIN
#undef TARGET
#undef VECTOR
#undef VECTOR_TYPE
#undef TILE_ROWS
#undef DEPTH
