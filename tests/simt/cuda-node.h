/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gradients/ortrain-case-text.h"
#include "simt/cuda-kernel-check.h"

/* Nodes of tests that are too large, or of other types, than the text of a case can say: one operator on given
 * tensors. */

typedef struct
{
  OrtrainTensor *in[KERNEL_MAX_OPERANDS], *out[KERNEL_MAX_OPERANDS]; /* owned */
  guint n_in, n_out;
} CudaNode;

/* A new tensor of zeros. */
G_GNUC_UNUSED static OrtrainTensor *
cuda_node_tensor (OrtrainDType dtype, guint rank, const gint64 *dims)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  if (ortrain_tensor_get_n_bytes (tensor) > 0)
    memset (ortrain_tensor_peek_writable (tensor), 0, ortrain_tensor_get_n_bytes (tensor));
  return tensor;
}

#define CUDA_DIMS(...) G_N_ELEMENTS (((const gint64[]){ __VA_ARGS__ })), ((const gint64[]){ __VA_ARGS__ })

/* Any bytes, or numbers from -1 to 1 of a floating type. */
G_GNUC_UNUSED static OrtrainTensor *
cuda_node_random (OrtrainDType dtype, guint32 seed, guint rank, const gint64 *dims)
{
  if (ortrain_dtype_is_floating (dtype))
    return kernel_random (dtype, dims, rank, 1, seed);
  OrtrainTensor *tensor = cuda_node_tensor (dtype, rank, dims);
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  guint8 *bytes = ortrain_tensor_peek_writable (tensor);
  for (gsize i = 0; i < ortrain_tensor_get_n_bytes (tensor); i++)
    bytes[i] = (guint8) g_rand_int_range (rand, 0, dtype == ORTRAIN_DTYPE_BOOL ? 2 : 256);
  return tensor;
}

/* Whole numbers from low to high - 1, of int64 or int32. */
G_GNUC_UNUSED static OrtrainTensor *
cuda_node_indices (OrtrainDType dtype, gint32 low, gint32 high, guint32 seed, guint rank, const gint64 *dims)
{
  OrtrainTensor *tensor = cuda_node_tensor (dtype, rank, dims);
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  gpointer data = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    {
      const gint32 value = g_rand_int_range (rand, low, high);
      if (dtype == ORTRAIN_DTYPE_INT64)
        ((gint64 *) data)[i] = value;
      else
        ((gint32 *) data)[i] = value;
    }
  return tensor;
}

/* [n] int64 */
G_GNUC_UNUSED static OrtrainTensor *
cuda_node_ints (guint n, const gint64 *values)
{
  OrtrainTensor *tensor = cuda_node_tensor (ORTRAIN_DTYPE_INT64, 1, (const gint64[]){ n });
  if (n > 0)
    memcpy (ortrain_tensor_peek_writable (tensor), values, n * sizeof (gint64));
  return tensor;
}

/* tensor: taken, NULL: absent */
G_GNUC_UNUSED static void
cuda_node_add_input (CudaNode *self, OrtrainTensor *tensor)
{
  self->in[self->n_in++] = tensor;
}

G_GNUC_UNUSED static void
cuda_node_add_output (CudaNode *self, OrtrainTensor *tensor)
{
  self->out[self->n_out++] = tensor;
}

/* attributes: as in a case, or NULL. Frees the tensors. */
G_GNUC_UNUSED static void
cuda_node_check (CudaNode *self, const char *domain, const char *op_type, const char *attributes)
{
  OrtrainNode node = { .domain = (char *) domain, .op_type = (char *) op_type };
  node.attributes = ortrain_attributes_new ();
  node.inputs = g_ptr_array_new ();
  node.outputs = g_ptr_array_new ();
  g_ptr_array_set_size (node.inputs, (gint) self->n_in);
  g_ptr_array_set_size (node.outputs, (gint) self->n_out);
  g_auto (GStrv) words = g_strsplit (attributes != NULL ? attributes : "", " ", -1);
  for (guint i = 0; words[i] != NULL; i++)
    if (*words[i] != 0)
      ortrain_case_parse_attribute (node.attributes, words[i]);
  cuda_check_node (&node, self->in, self->out);
  for (guint i = 0; i < self->n_in; i++)
    g_clear_object (&self->in[i]);
  for (guint k = 0; k < self->n_out; k++)
    g_clear_object (&self->out[k]);
  g_ptr_array_unref (node.inputs);
  g_ptr_array_unref (node.outputs);
  ortrain_attributes_free (node.attributes);
  self->n_in = self->n_out = 0;
}

/* Compares types that cannot be exchanged: the first output has the bits that it has on the CPU. Frees the tensors. */
G_GNUC_UNUSED static void
cuda_node_compare (CudaNode *node, const char *op_type, const char *attributes)
{
  OrtrainTensor *results[2];
  for (guint cuda = 0; cuda < 2; cuda++)
    {
      KernelRun run;
      g_autoptr (GError) error = NULL;
      const OrtrainProviderOptions options = { .n_threads = 1 };
      g_autoptr (OrtrainProvider) provider = cuda ? ortrain_provider_open ("cuda", &options, &error) : NULL;
      g_assert_no_error (error);
      kernel_run_init (&run, g_str_has_suffix (op_type, "Grad") ? "org.ortrain" : "", op_type);
      g_auto (GStrv) words = g_strsplit (attributes != NULL ? attributes : "", " ", -1);
      for (guint i = 0; words[i] != NULL; i++)
        if (*words[i] != 0)
          ortrain_case_parse_attribute (run.attributes, words[i]);
      run.provider = provider;
      for (guint i = 0; i < node->n_in; i++)
        kernel_run_add_input (&run, node->in[i] != NULL ? g_object_ref (node->in[i]) : NULL);
      kernel_run_add_output (&run, ortrain_tensor_get_dtype (node->out[0]), ortrain_tensor_peek_dims (node->out[0]),
                             ortrain_tensor_get_rank (node->out[0]));
      kernel_run (&run);
      results[cuda] = g_object_ref (run.outputs[0]);
      kernel_run_clear (&run);
    }
  g_assert_cmpmem (ortrain_tensor_peek (results[0]), ortrain_tensor_get_n_bytes (results[0]),
                   ortrain_tensor_peek (results[1]), ortrain_tensor_get_n_bytes (results[1]));
  g_object_unref (results[0]);
  g_object_unref (results[1]);
  for (guint i = 0; i < node->n_in; i++)
    g_clear_object (&node->in[i]);
  g_clear_object (&node->out[0]);
  node->n_in = node->n_out = 0;
}
