/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-gemm.h"
#include "cpu/ortrain-cpu-isa-private.h"

#include <string.h>

/* The blocked product for one instruction set: registers decide the size of the innermost tile (MR rows × two vectors).
 */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define MR 14
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define MR 6
#else
#define VECTOR_BYTES 16
#define MR 6
#endif
#define KC 256
#define MC ((224 / MR) * MR)
#define NC 1024

/* The formatter never comes to rest on these. */
/* clang-format off */
#if MR == 14
#define MICRO_CASES \
  MICRO_CASE (1) MICRO_CASE (2) MICRO_CASE (3) MICRO_CASE (4) MICRO_CASE (5) MICRO_CASE (6) MICRO_CASE (7) \
  MICRO_CASE (8) MICRO_CASE (9) MICRO_CASE (10) MICRO_CASE (11) MICRO_CASE (12) MICRO_CASE (13) MICRO_CASE (14)
#else
#define MICRO_CASES \
  MICRO_CASE (1) MICRO_CASE (2) MICRO_CASE (3) MICRO_CASE (4) MICRO_CASE (5) MICRO_CASE (6)
#endif
/* clang-format on */

#define LANES_2(F, s) F (0, s), F (1, s)
#define LANES_4(F, s) LANES_2 (F, s), F (2, s), F (3, s)
#define LANES_8(F, s) LANES_4 (F, s), F (4, s), F (5, s), F (6, s), F (7, s)
#define LANES_16(F, s)                                                                                                 \
  LANES_8 (F, s), F (8, s), F (9, s), F (10, s), F (11, s), F (12, s), F (13, s), F (14, s), F (15, s)

#define REAL float
#define NAME(x) ORTRAIN_CPU_SYMBOL (x##_f32)
#if VECTOR_BYTES == 64
#define VL 16
#define LANES LANES_16
#elif VECTOR_BYTES == 32
#define VL 8
#define LANES LANES_8
#else
#define VL 4
#define LANES LANES_4
#endif
#include "cpu/ortrain-cpu-gemm-template.h"

extern const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core);
const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core) = {
  .mr = MR,
  .nr = 2 * VL,
  .vl = VL,
  .kc = KC,
  .mc = MC,
  .nc = NC,
  .kcs = KC + 64 / (int) sizeof (REAL),
  .element_size = sizeof (REAL),
  .block.f32 = NAME (ortrain_cpu_gemm_block),
  .tile.f32 = NAME (ortrain_cpu_gemm_tile),
  .transpose.f32 = NAME (ortrain_cpu_transpose),
};
#undef REAL
#undef NAME
#undef VL
#undef LANES

#define REAL double
#define NAME(x) ORTRAIN_CPU_SYMBOL (x##_f64)
#if VECTOR_BYTES == 64
#define VL 8
#define LANES LANES_8
#elif VECTOR_BYTES == 32
#define VL 4
#define LANES LANES_4
#else
#define VL 2
#define LANES LANES_2
#endif
#include "cpu/ortrain-cpu-gemm-template.h"

extern const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core);
const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core) = {
  .mr = MR,
  .nr = 2 * VL,
  .vl = VL,
  .kc = KC,
  .mc = MC,
  .nc = NC,
  .kcs = KC + 64 / (int) sizeof (REAL),
  .element_size = sizeof (REAL),
  .block.f64 = NAME (ortrain_cpu_gemm_block),
  .tile.f64 = NAME (ortrain_cpu_gemm_tile),
  .transpose.f64 = NAME (ortrain_cpu_transpose),
};
