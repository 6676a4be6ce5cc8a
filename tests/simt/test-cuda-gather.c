/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "Gather", "f[4,3];i[2]{3,1}" },
  { "Gather", "f[4,3];i[2,2]{0,2,2,-1}", "axis=1" },
  { "Gather", "f[4,3];i{2}" },
  { "Gather", "f[33,257];I[5]{32,0,-1,-33,7}" },
  { "Gather", "f[31,64];j[7]{30,30,30,2,30,2,-31}" },
  { "Gather", "f[2,5,64];i[4]{4,0,4,4}", "axis=1" },
  { "Gather", "f[3,4,8];i[3]{3,3,0}", "axis=-1" },
  { "Gather", "f[4,3];i[0]{}" },
  { "Gather", "f[4,0];i[2]{1,2}" },
  { "GatherElements", "f[3,3];i[2,3]{1,2,0,2,0,0}" },
  { "GatherElements", "f[3,3];i[3,2]{1,-2,0,2,0,0}", "axis=1" },
  { "GatherElements", "f[4,31,3];j[2,4,3]{0,1,2,-31,30,30,5,5,5,0,0,0,1,1,1,2,2,2,3,3,3,4,4,4}", "axis=1" },
  { "GatherElements", "f[257,5];i[33,1]{0,0,1,256,-1,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5}" },
  { "GatherElements", "f[3];i[0]{}" },
  { "GatherND", "f[3,4,2];i[2,2]{0,1,2,3}" },
  { "GatherND", "f[2,3,2];i[2,1]{1,0}", "batch_dims=1" },
  { "GatherND", "f[2,3,64];i[2,4,1]{2,2,-3,2,0,0,1,0}", "batch_dims=1" },
  { "GatherND", "f[3,4,65];i[3,2]{-1,-1,2,3,0,0}" },
  { "GatherND", "f[3,4];i[5,2]{2,3,2,3,2,3,0,0,2,3}" },
  { "GatherGrad", "f[3,2];i[3]{1,0,1};i[2]{4,2}", "axis=0", 1, "org.ortrain" },
};

static const char *const operators[] = {
  "Gather", "GatherGrad", "GatherElements", "GatherElementsGrad", "GatherND", "GatherNDGrad", NULL
};

static void
test_cases (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

/* indices: [n], taken. dy [outer, n, inner] → [outer, dim, inner] */
static void
check_gather_grad (gint64 outer, gint64 dim, gint64 inner, OrtrainTensor *indices)
{
  CudaNode node = { 0 };
  const gint64 n = ortrain_tensor_get_n_elements (indices);
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (outer, n, inner)));
  cuda_node_add_input (&node, indices);
  cuda_node_add_input (&node, cuda_node_ints (3, (const gint64[]){ outer, dim, inner }));
  cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (outer, dim, inner)));
  cuda_node_check (&node, "org.ortrain", "GatherGrad", "axis=1");
}

static OrtrainTensor *
draw (gint64 n, gint32 low, gint32 high)
{
  return cuda_node_indices (n % 2 == 0 ? ORTRAIN_DTYPE_INT64 : ORTRAIN_DTYPE_INT32, low, high, (guint32) n,
                            CUDA_DIMS (n));
}

/* One place for all of them, one for many, few for each; wide rows and narrow ones, aligned or not. */
static void
test_gather_grad (void)
{
  cuda_check_begin ((const char *const[]){ "GatherGrad", NULL });
  cuda_check_set_tolerance (1e-5);
  check_gather_grad (1, 50257, 1, draw (1023, -50257, 50257));
  check_gather_grad (1, 257, 68, draw (300, 0, 257));
  check_gather_grad (1, 257, 67, draw (300, 0, 257));
  check_gather_grad (2, 33, 128, draw (1025, 0, 31)); /* some thirty rows meet */
  check_gather_grad (1, 3, 132, draw (1025, 0, 3));   /* three hundred */
  check_gather_grad (2, 5, 64, draw (129, 2, 3));     /* one more than is summed by a warp */
  check_gather_grad (1, 5, 64, draw (128, 2, 3));
  check_gather_grad (1, 5, 3, draw (1000, 1, 3)); /* too many to be sorted by one thread */
  check_gather_grad (1, 31, 768, draw (65, -31, 31));
  check_gather_grad (3, 10000, 2, draw (100, 0, 7)); /* few indices compared with the places */
  check_gather_grad (1, 1, 64, draw (1, 0, 1));
  cuda_check_end ();
}

static void
check_elements_grad (gint64 rows, gint64 columns, gint64 n_rows, gint64 n_columns, gint64 axis, gint32 limit)
{
  CudaNode node = { 0 };
  g_autofree char *attributes = g_strdup_printf ("axis=%" G_GINT64_FORMAT, axis);
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (n_rows, n_columns)));
  cuda_node_add_input (&node, cuda_node_indices (ORTRAIN_DTYPE_INT64, -limit, limit, 3, CUDA_DIMS (n_rows, n_columns)));
  cuda_node_add_input (&node, cuda_node_ints (2, (const gint64[]){ rows, columns }));
  cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (rows, columns)));
  cuda_node_check (&node, "org.ortrain", "GatherElementsGrad", attributes);
}

static void
test_elements_grad (void)
{
  cuda_check_begin ((const char *const[]){ "GatherElementsGrad", NULL });
  cuda_check_set_tolerance (1e-5);
  check_elements_grad (33, 257, 33, 1, 1, 257);
  check_elements_grad (257, 5, 1025, 3, 0, 257);
  check_elements_grad (3, 5, 3, 1025, 1, 2);
  check_elements_grad (31, 33, 31, 64, 1, 3);
  check_elements_grad (7, 2000, 5, 65, 1, 2000);
  cuda_check_end ();
}

static void
check_nd_grad (gint64 rows, gint64 columns, gint64 inner, gint64 n)
{
  CudaNode node = { 0 };
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (n, inner)));
  cuda_node_add_input (
      &node, cuda_node_indices (ORTRAIN_DTYPE_INT64, (gint32) -columns, (gint32) columns, 3, CUDA_DIMS (n, 2)));
  cuda_node_add_input (&node, cuda_node_ints (3, (const gint64[]){ rows, columns, inner }));
  cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (rows, columns, inner)));
  cuda_node_check (&node, "org.ortrain", "GatherNDGrad", NULL);
}

static void
test_nd_grad (void)
{
  cuda_check_begin ((const char *const[]){ "GatherNDGrad", NULL });
  cuda_check_set_tolerance (1e-5);
  check_nd_grad (31, 5, 64, 257);
  check_nd_grad (33, 33, 3, 257);
  check_nd_grad (1025, 31, 1, 33);
  cuda_check_end ();
}

/* Out of range: the fault that the CPU reports, and nothing is written where it should not be. */
static void
test_faults (void)
{
  static const OrtrainGradientCase wrong[] = {
    { "Gather", "f[4,3];I[2]{3,4}" },
    { "Gather", "f[4,3];I[3]{0,-5,1}" },
    { "GatherElements", "f[3,3];I[1,3]{1,3,0}" },
    { "GatherND", "f[3,4,2];I[2,2]{0,1,3,0}" },
    { "GatherGrad", "f[3,2];I[3]{1,4,1};i[2]{4,2}", "axis=0", 1, "org.ortrain" },
    { "GatherElementsGrad", "f[2,3];I[2,3]{1,2,0,2,-4,0};i[2]{3,3}", "axis=0", 1, "org.ortrain" },
    { "GatherNDGrad", "f[2,2];I[2,2]{0,4,2,3};i[3]{3,4,2}", NULL, 1, "org.ortrain" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      CudaNode node = { 0 };
      g_auto (GStrv) words = g_strsplit (wrong[i].inputs, ";", -1);
      for (guint k = 0; words[k] != NULL; k++)
        {
          OrtrainCaseOperand operand;
          ortrain_case_parse_operand (words[k], &operand);
          if (operand.kind == 'f')
            cuda_node_add_input (&node,
                                 cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, (guint) operand.rank, operand.dims));
          else
            {
              OrtrainTensor *tensor = cuda_node_tensor (ORTRAIN_DTYPE_INT64, (guint) operand.rank, operand.dims);
              for (guint v = 0; v < operand.n_values; v++)
                ((gint64 *) ortrain_tensor_peek_writable (tensor))[v] = (gint64) operand.values[v];
              cuda_node_add_input (&node, tensor);
            }
        }
      const gint64 *dims = ortrain_tensor_peek (node.in[node.n_in - 1]);
      if (node.n_in == 3)
        cuda_node_add_output (
            &node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, (guint) ortrain_tensor_get_n_elements (node.in[2]), dims));
      else if (g_str_equal (wrong[i].op_type, "Gather"))
        cuda_node_add_output (
            &node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (ortrain_tensor_get_n_elements (node.in[1]), 3)));
      else if (g_str_equal (wrong[i].op_type, "GatherND"))
        cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (2, 2)));
      else
        cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (1, 3)));
      cuda_check_begin ((const char *const[]){ wrong[i].op_type, NULL });
      cuda_node_check (&node, wrong[i].domain != NULL ? wrong[i].domain : "", wrong[i].op_type, wrong[i].attributes);
      cuda_check_end ();
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-gather/cases", test_cases);
  g_test_add_func ("/cuda-gather/gather-grad", test_gather_grad);
  g_test_add_func ("/cuda-gather/elements-grad", test_elements_grad);
  g_test_add_func ("/cuda-gather/nd-grad", test_nd_grad);
  g_test_add_func ("/cuda-gather/faults", test_faults);
  return g_test_run ();
}
