// Attention of the few tokens of a patch on each other: a warp computes one head of one row.
//
// Nothing goes through shared memory. A lane reads eight neighbouring features of a token at once,
// so pairs are rotated where they are; which features the tensor cores see side by side is free for
// queries and keys, and for values it decides that a lane ends with eight neighbouring features of
// the result. `patch_attention.py` says what is computed.

constexpr int T = TOKENS, H = HEADS, G = KV_HEADS, C = 128, WIDTH = (H + 2 * G) * C, WARPS = 4,
              GROUPS = C / 32;
static_assert(T <= 16, "tokens of one product");

struct Params {
  const u16* qkv;       // [rows][T][WIDTH]
  const float4* turns;  // [T][C / 4], cos and sin of two pairs each; or null
  u16* out;             // [rows][T - first][H * C]
  int rows, first;
  float scale;
};

__device__ __forceinline__ u32 turned(u32 pair, float cos, float sin) {
  const float a = __uint_as_float(pair << 16), b = __uint_as_float(pair & 0xFFFF0000u);
  return pack(a * cos - b * sin, b * cos + a * sin);
}
__device__ __forceinline__ uint4 turned(uint4 v, const float4& low, const float4& high) {
  return make_uint4(turned(v.x, low.x, low.y), turned(v.y, low.z, low.w),
                    turned(v.z, high.x, high.y), turned(v.w, high.z, high.w));
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, 4)
    attend(const __grid_constant__ Params p) {
  const int lane = threadIdx.x % 32, unit = blockIdx.x * WARPS + threadIdx.x / 32;
  const int b = unit / H, h = unit % H, g = lane / 4, c = lane % 4;
  const int token[2] = {min(g, T - 1), min(g + 8, T - 1)};
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (b >= p.rows) return;
  const u16* from = p.qkv + (size_t)b * T * WIDTH + c * 8;
  const int key_at = (H + h / (H / G)) * C, value_at = key_at + G * C;
  uint4 q[2][GROUPS], k[2][GROUPS], v[2][GROUPS];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int s = 0; s < GROUPS; s++) {
      const u16* at = from + token[i] * WIDTH + s * 32;
      q[i][s] = *(const uint4*)(at + h * C);
      k[i][s] = *(const uint4*)(at + key_at);
      v[i][s] = *(const uint4*)(at + value_at);
    }
  if (p.turns) {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int s = 0; s < GROUPS; s++) {
        const float4* at = p.turns + token[i] * (C / 4) + s * 8 + c * 2;
        const float4 low = at[0], high = at[1];
        q[i][s] = turned(q[i][s], low, high);
        k[i][s] = turned(k[i][s], low, high);
      }
  }
  float s0[4] = {}, s1[4] = {}, s2[4] = {}, s3[4] = {};  // a chain of products is slow
#pragma unroll
  for (int s = 0; s < GROUPS; s++) {
    mma(s0, q[0][s].x, q[1][s].x, q[0][s].y, q[1][s].y, k[0][s].x, k[0][s].y);
    mma(s1, q[0][s].x, q[1][s].x, q[0][s].y, q[1][s].y, k[1][s].x, k[1][s].y);
    mma(s2, q[0][s].z, q[1][s].z, q[0][s].w, q[1][s].w, k[0][s].z, k[0][s].w);
    mma(s3, q[0][s].z, q[1][s].z, q[0][s].w, q[1][s].w, k[1][s].z, k[1][s].w);
  }
  float shares[2][4], inverse[2];  // of tokens g and g + 8 on keys 2 c, 2 c + 1 and 8 further on
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float* x = shares[i];
    float top = -1e30f, sum = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int key = 2 * c + e % 2 + e / 2 * 8, at = 2 * i + e % 2;
      x[e] = key < T ? (e < 2 ? s0[at] + s2[at] : s1[at] + s3[at]) * p.scale : -1e30f;
      top = fmaxf(top, x[e]);
    }
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
#pragma unroll
    for (int e = 0; e < 4; e++) sum += x[e] = __expf(x[e] - top);
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    inverse[i] = __fdividef(1, sum);
  }
  const u32 a0 = pack(shares[0][0], shares[0][1]), a1 = pack(shares[1][0], shares[1][1]),
            a2 = pack(shares[0][2], shares[0][3]), a3 = pack(shares[1][2], shares[1][3]);
  u16* to = p.out + ((size_t)b * (T - p.first) - p.first) * (H * C) + h * C + c * 8;
#pragma unroll
  for (int s = 0; s < GROUPS; s++) {
    const u32 low[4] = {v[0][s].x, v[0][s].y, v[0][s].z, v[0][s].w},
              high[4] = {v[1][s].x, v[1][s].y, v[1][s].z, v[1][s].w};
    u32 mixed[2][4];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      float o[4] = {};
      mma(o, a0, a1, a2, a3, transposed(low[n]), transposed(high[n]));
      mixed[0][n] = pack(o[0] * inverse[0], o[1] * inverse[0]);
      mixed[1][n] = pack(o[2] * inverse[1], o[3] * inverse[1]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = g + 8 * i;
      if (row >= p.first && row < T)
        *(uint4*)(to + (long long)row * (H * C) + s * 32) =
            make_uint4(mixed[i][0], mixed[i][1], mixed[i][2], mixed[i][3]);
    }
  }
}
