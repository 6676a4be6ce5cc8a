/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

/* Kernels in emulation are compiled so that a vector that begins at no multiple of its size ends the process, as it
 * does on a GPU, where processors of the host would read it. */

alignas (32) static float numbers[16];
static volatile float sink;

template <typename T, int N>
static void
load (gconstpointer data)
{
  const gsize offset = GPOINTER_TO_SIZE (data);
  if (g_test_subprocess ())
    {
      const OrtrainPack<T, N> pack = *(const OrtrainPack<T, N> *) ((const guint8 *) numbers + offset);
      sink = (float) pack.at[N - 1];
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  if (offset % sizeof (OrtrainPack<T, N>) == 0)
    g_test_trap_assert_passed ();
  else
    g_test_trap_assert_failed ();
}

template <typename T, int N>
static void
store (gconstpointer data)
{
  const gsize offset = GPOINTER_TO_SIZE (data);
  if (g_test_subprocess ())
    {
      OrtrainPack<T, N> pack = {};
      pack.at[0] = (T) g_test_rand_int_range (1, 5);
      *(OrtrainPack<T, N> *) ((guint8 *) numbers + offset) = pack;
      sink = numbers[0];
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  if (offset % sizeof (OrtrainPack<T, N>) == 0)
    g_test_trap_assert_passed ();
  else
    g_test_trap_assert_failed ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-alignment/load/aligned", GSIZE_TO_POINTER (16), load<float, 4>);
  g_test_add_data_func ("/cuda-alignment/load/4-of-16-bytes", GSIZE_TO_POINTER (4), load<float, 4>);
  g_test_add_data_func ("/cuda-alignment/load/8-of-16-bytes", GSIZE_TO_POINTER (8), load<guint16, 8>);
  g_test_add_data_func ("/cuda-alignment/load/2-of-4-bytes", GSIZE_TO_POINTER (2), load<float, 1>);
  g_test_add_data_func ("/cuda-alignment/store/aligned", GSIZE_TO_POINTER (32), store<float, 4>);
  g_test_add_data_func ("/cuda-alignment/store/8-of-16-bytes", GSIZE_TO_POINTER (8), store<float, 4>);
  return g_test_run ();
}
