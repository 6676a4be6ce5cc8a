/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Vector kernels are compiled once per instruction set; these are the sets. */
typedef enum
{
  ORTRAIN_CPU_LEVEL_BASELINE, /* the instructions of every machine of the architecture */
  ORTRAIN_CPU_LEVEL_V3,       /* x86-64-v3: AVX2, FMA */
  ORTRAIN_CPU_LEVEL_V4,       /* x86-64-v4: AVX-512 */
  ORTRAIN_CPU_N_LEVELS
} OrtrainCpuLevel;

/* The best that this build has and this machine runs. ORTRAIN_CPU_LEVEL (baseline, v3, v4) in the environment takes it
 * down, for tests. */
OrtrainCpuLevel ortrain_cpu_get_level (void);

/* Products of pairs of bfloat16 (AVX512-BF16), above v4. ORTRAIN_CPU_LEVEL=v4 and lower go without them; v4-bf16 is the
 * highest level. */
gboolean ortrain_cpu_has_bf16 (void);
