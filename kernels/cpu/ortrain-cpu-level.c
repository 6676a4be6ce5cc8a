/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-level-private.h"

#include "ortrain-cpu-families.h"

static OrtrainCpuLevel
find_level (void)
{
  static const char *const names[ORTRAIN_CPU_N_LEVELS] = { "baseline", "v3", "v4" };
  OrtrainCpuLevel level = ORTRAIN_CPU_LEVEL_BASELINE, limit = ORTRAIN_CPU_N_LEVELS - 1;
  const char *wanted = g_getenv ("ORTRAIN_CPU_LEVEL");
  for (guint i = 0; wanted != NULL && i < ORTRAIN_CPU_N_LEVELS; i++)
    if (g_str_equal (wanted, names[i]))
      limit = i;
#if defined(ORTRAIN_CPU_HAVE_V3) || defined(ORTRAIN_CPU_HAVE_V4)
  __builtin_cpu_init ();
#endif
#ifdef ORTRAIN_CPU_HAVE_V3
  if (limit >= ORTRAIN_CPU_LEVEL_V3 && __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma") &&
      __builtin_cpu_supports ("bmi2"))
    level = ORTRAIN_CPU_LEVEL_V3;
#endif
#ifdef ORTRAIN_CPU_HAVE_V4
  if (limit >= ORTRAIN_CPU_LEVEL_V4 && __builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512bw") &&
      __builtin_cpu_supports ("avx512dq") && __builtin_cpu_supports ("avx512vl"))
    level = ORTRAIN_CPU_LEVEL_V4;
#endif
  return MIN (level, limit);
}

OrtrainCpuLevel
ortrain_cpu_get_level (void)
{
  static gsize level; /* plus one */
  if (g_once_init_enter (&level))
    g_once_init_leave (&level, (gsize) find_level () + 1);
  return (OrtrainCpuLevel) (level - 1);
}

#ifdef ORTRAIN_CPU_HAVE_BF16
static gboolean
find_bf16 (void)
{
  const char *wanted = g_getenv ("ORTRAIN_CPU_LEVEL");
  __builtin_cpu_init ();
  return ortrain_cpu_get_level () == ORTRAIN_CPU_LEVEL_V4 && g_strcmp0 (wanted, "v4") != 0 &&
         __builtin_cpu_supports ("avx512bf16");
}

gboolean
ortrain_cpu_has_bf16 (void)
{
  static gsize answer; /* plus one */
  if (g_once_init_enter (&answer))
    g_once_init_leave (&answer, find_bf16 () ? 2 : 1);
  return answer == 2;
}
#else
gboolean
ortrain_cpu_has_bf16 (void)
{
  return FALSE;
}
#endif
