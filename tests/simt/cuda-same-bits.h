/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/kernel-run.h"

/* Kernels whose results are the CPU's bit for bit: of integers, comparisons, conversions, choices. */

G_GNUC_UNUSED static OrtrainProvider *
open_cuda (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  OrtrainProvider *cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  return cuda;
}

static const OrtrainDType integers[] = {
  ORTRAIN_DTYPE_INT8,  ORTRAIN_DTYPE_UINT8,  ORTRAIN_DTYPE_INT16, ORTRAIN_DTYPE_UINT16,
  ORTRAIN_DTYPE_INT32, ORTRAIN_DTYPE_UINT32, ORTRAIN_DTYPE_INT64, ORTRAIN_DTYPE_UINT64,
};

/* Bytes at random, and the ends of the type; of bool 0 and 1. [n] */
G_GNUC_UNUSED static OrtrainTensor *
random_bytes (OrtrainDType dtype, const gint64 *dims, gsize rank, guint32 seed, gboolean small)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  const gsize size = ortrain_dtype_get_size (dtype);
  guint8 *bytes = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++, bytes += size)
    {
      guint64 x = (guint64) g_rand_int (rand) << 32 | g_rand_int (rand);
      if (small)
        x = (guint64) (gint64) g_rand_int_range (rand, -3, 12);
      else if (i % 7 == 1)
        x = (guint64) 1 << (8 * size - 1); /* the smallest of a signed type */
      else if (i % 7 == 3)
        x = G_MAXUINT64; /* -1 */
      if (dtype == ORTRAIN_DTYPE_BOOL)
        x &= 1;
      memcpy (bytes, &x, size);
    }
  return tensor;
}

/* The kernels of both providers on the same operands have the same bits, and faults. */
G_GNUC_UNUSED static guint
compare (OrtrainProvider *cuda, const char *op_type, OrtrainAttributes *attributes, OrtrainTensor *const *in,
         guint n_in, OrtrainDType to, const gint64 *dims, gsize rank)
{
  KernelRun runs[2];
  g_autoptr (GError) error = NULL;
  for (guint r = 0; r < 2; r++)
    {
      kernel_run_init (&runs[r], "", op_type);
      if (attributes != NULL)
        {
          ortrain_attributes_free (runs[r].attributes);
          runs[r].attributes = ortrain_attributes_copy (attributes);
        }
      for (guint i = 0; i < n_in; i++)
        kernel_run_add_input (&runs[r], g_object_ref (in[i]));
      kernel_run_add_output (&runs[r], to, dims, rank);
      runs[r].provider = r == 0 ? cuda : NULL;
      if (!kernel_run_try (&runs[r], &error))
        {
          /* the CPU has none either */
          g_clear_error (&error);
          KernelRun *other = &runs[1];
          if (r == 0)
            {
              kernel_run_init (other, "", op_type);
              for (guint i = 0; i < n_in; i++)
                kernel_run_add_input (other, g_object_ref (in[i]));
              kernel_run_add_output (other, to, dims, rank);
              g_assert_false (kernel_run_try (other, &error));
              g_clear_error (&error);
            }
          kernel_run_clear (&runs[0]);
          kernel_run_clear (&runs[1]);
          return 0;
        }
    }
  g_assert_cmpint (runs[0].fault.code, ==, runs[1].fault.code);
  if (runs[0].fault.code != ORTRAIN_FAULT_NONE)
    {
      g_assert_cmpint (runs[0].fault.position, ==, runs[1].fault.position);
      g_assert_cmpint (runs[0].fault.value, ==, runs[1].fault.value);
    }
  g_autofree char *what =
      g_strdup_printf ("%s of %s to %s", op_type, ortrain_dtype_get_name (ortrain_tensor_get_dtype (in[0])),
                       ortrain_dtype_get_name (to));
  /* a NaN has a type's bits, but which ones is nobody's promise */
  const gboolean floating = ortrain_dtype_is_floating (to);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (runs[1].outputs[0]); i++)
    {
      const gsize size = ortrain_dtype_get_size (to);
      const guint8 *x = (const guint8 *) ortrain_tensor_peek (runs[0].outputs[0]) + (gsize) i * size;
      const guint8 *y = (const guint8 *) ortrain_tensor_peek (runs[1].outputs[0]) + (gsize) i * size;
      if (memcmp (x, y, size) == 0 || (floating && isnan (ortrain_tensor_get_scalar (runs[0].outputs[0], i)) &&
                                       isnan (ortrain_tensor_get_scalar (runs[1].outputs[0], i))))
        continue;
      g_error ("%s: element %" G_GINT64_FORMAT " is %.17g, the CPU has %.17g", what, i,
               ortrain_tensor_get_scalar (runs[0].outputs[0], i), ortrain_tensor_get_scalar (runs[1].outputs[0], i));
    }
  kernel_run_clear (&runs[0]);
  kernel_run_clear (&runs[1]);
  return 1;
}
