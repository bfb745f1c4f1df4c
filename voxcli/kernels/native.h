/* What the compiled kernels share: one source for plain processors and those with AVX2 or AVX-512.

   Plain C99 for any compiler; where GCC or clang compile for x86-64, each function is there a
   second time for AVX2 and a third for AVX-512, which give the same bits. No state but which of
   them to use and the threads of native_threads.c, no allocation, no library but libc. Compile it with
   -ffp-contract=off: what is rounded is then what stands here, so that a number does not depend on
   whether it was in a vector or in what was left over behind the last whole one. */

#ifndef VOX_NATIVE_H
#define VOX_NATIVE_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "float arithmetic is wider than float here, and range reduction relies on its rounding"
#endif

#if defined(_MSC_VER)
#define API __declspec(dllexport)
#define HIDDEN
#define ALWAYS_INLINE static __forceinline
#define restrict __restrict
#else
#define API __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_TWINS 1
#define AVX2 __attribute__((target("avx2,fma,f16c"))) /* there is no AVX2 without F16C */
#define AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")))
#else
#define HAS_TWINS 0
#endif

/* What a processor can do; each level is there with all before it. */
enum { BASELINE, WITH_AVX2, WITH_AVX512 };
extern HIDDEN int vox_level;

/* What a loop writes is not what it reads; inlining makes compilers forget `restrict`. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* a * b + c, rounded once where `fused` (a constant of each twin) says that the processor can. */
#if defined(__GNUC__)
#define FMA(a, b, c) (fused ? __builtin_fmaf(a, b, c) : (a) * (b) + (c))
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#if defined(__FP_FAST_FMAF)
#define FUSED 1
#else
#define FUSED 0
#endif

enum { LANES = 16 };

ALWAYS_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The sum of LANES parts: of halves, of their halves and so on. */
#if defined(__GNUC__) /* as a loop it goes through memory each time, written out lane by lane */
ALWAYS_INLINE float total(const float *parts) {
    typedef float Eight __attribute__((vector_size(32)));
    typedef float Four __attribute__((vector_size(16)));
    union { Eight whole; Four half[2]; } low, high;
    memcpy(&low, parts, sizeof low);
    memcpy(&high, parts + 8, sizeof high);
    low.whole += high.whole;
    const Four four = low.half[0] + low.half[1];
    return (four[0] + four[2]) + (four[1] + four[3]);
}
#else
ALWAYS_INLINE float total(float *parts) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++) parts[lane] += parts[lane + width];
    return parts[0];
}
#endif

/* Each function up to three times, under one name; a body's first argument is `fused`. */
#if HAS_TWINS
#define DEFINE(name, body, parameters, ...)                                                        \
    AVX2 static void name##_avx2 parameters { body(1, __VA_ARGS__); }                              \
    AVX512 static void name##_avx512 parameters { body(1, __VA_ARGS__); }                          \
    API void name parameters {                                                                     \
        if (vox_level == WITH_AVX512)                                                              \
            name##_avx512(__VA_ARGS__);                                                            \
        else if (vox_level == WITH_AVX2)                                                           \
            name##_avx2(__VA_ARGS__);                                                              \
        else                                                                                       \
            body(FUSED, __VA_ARGS__);                                                              \
    }
#else
#define DEFINE(name, body, parameters, ...)                                                        \
    API void name parameters { body(FUSED, __VA_ARGS__); }
#endif

#endif
