/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "ScatterElements", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]" },
  { "ScatterElements", "f[3,3];i[1,2]{1,0};f[1,2]", "axis=1 reduction='add'" },
  { "ScatterElements", "p[3,3];i[2,3]{1,0,2,0,2,1};p[2,3]", "reduction='mul'" },
  { "ScatterElements", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]", "reduction='max'" },
  { "ScatterElements", "f[0,3];i[0,3]{};f[0,3]" },
  { "ScatterElements", "f[3,3];i[0,3]{};f[0,3]" },
  { "ScatterND", "f[4,3];i[2,1]{3,1};f[2,3]" },
  { "ScatterND", "f[4,3];i[2,1]{3,3};f[2,3]", "reduction='add'" },
  { "ScatterND", "f[4,3];i[2,1]{3,1};f[2,3]", "reduction='min'" },
  { "ScatterND", "f[4,3,5];I[3,2]{3,1,-1,-1,0,2};f[3,5]" },
};

static const char *const reductions[] = { "none", "add", "mul", "max", "min" };
static const char *const operators[] = { "ScatterElements", "ScatterND", NULL };

static void
test_cases (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

/* Places that are named once, often, or not at all; with NaN and infinities among the updates. */
static OrtrainTensor *
draw (OrtrainDType dtype, guint32 seed, guint rank, const gint64 *dims)
{
  OrtrainTensor *tensor = cuda_node_random (dtype, seed, rank, dims);
  if (dtype == ORTRAIN_DTYPE_FLOAT32 && ortrain_tensor_get_n_elements (tensor) > 20)
    {
      float *x = ortrain_tensor_peek_writable (tensor);
      x[3] = NAN;
      x[11] = INFINITY;
      x[17] = -INFINITY;
    }
  return tensor;
}

static void
check_elements (OrtrainDType dtype, gint64 rows, gint64 columns, gint64 n, const char *reduction)
{
  CudaNode node = { 0 };
  g_autofree char *attributes = g_strdup_printf ("axis=0 reduction='%s'", reduction);
  cuda_node_add_input (&node, draw (dtype, 1, CUDA_DIMS (rows, columns)));
  cuda_node_add_input (
      &node, cuda_node_indices (ORTRAIN_DTYPE_INT64, (gint32) -rows, (gint32) rows, 3, CUDA_DIMS (n, columns)));
  cuda_node_add_input (&node, draw (dtype, 2, CUDA_DIMS (n, columns)));
  cuda_node_add_output (&node, cuda_node_tensor (dtype, CUDA_DIMS (rows, columns)));
  cuda_node_check (&node, "", "ScatterElements", attributes);
}

static void
check_nd (OrtrainDType dtype, gint64 rows, gint64 inner, gint64 n, gint32 limit, const char *reduction)
{
  CudaNode node = { 0 };
  g_autofree char *attributes = g_strdup_printf ("reduction='%s'", reduction);
  cuda_node_add_input (&node, draw (dtype, 1, CUDA_DIMS (rows, inner)));
  cuda_node_add_input (&node, cuda_node_indices (ORTRAIN_DTYPE_INT64, 0, limit, 3, CUDA_DIMS (n, 1)));
  cuda_node_add_input (&node, draw (dtype, 2, CUDA_DIMS (n, inner)));
  cuda_node_add_output (&node, cuda_node_tensor (dtype, CUDA_DIMS (rows, inner)));
  cuda_node_check (&node, "", "ScatterND", attributes);
}

static void
test_floating (void)
{
  cuda_check_begin (operators);
  cuda_check_set_tolerance (1e-5);
  for (guint r = 0; r < G_N_ELEMENTS (reductions); r++)
    {
      check_elements (ORTRAIN_DTYPE_FLOAT32, 257, 3, 33, reductions[r]);
      check_elements (ORTRAIN_DTYPE_FLOAT32, 31, 33, 65, reductions[r]);
      check_elements (ORTRAIN_DTYPE_FLOAT64, 31, 3, 65, reductions[r]);
      check_nd (ORTRAIN_DTYPE_FLOAT32, 1025, 1, 1023, 1025, reductions[r]);
      check_nd (ORTRAIN_DTYPE_FLOAT32, 33, 31, 65, 33, reductions[r]);
      check_nd (ORTRAIN_DTYPE_FLOAT32, 5000, 5, 33, 9, reductions[r]);
      check_nd (ORTRAIN_DTYPE_FLOAT64, 5, 5, 33, 5, reductions[r]);
    }
  /* more in one place than one thread sorts */
  check_nd (ORTRAIN_DTYPE_FLOAT32, 7, 3, 1000, 2, "none");
  check_nd (ORTRAIN_DTYPE_FLOAT32, 7, 3, 1000, 2, "add");
  cuda_check_end ();
}

static void
test_types (void)
{
  static const OrtrainDType types[] = {
    ORTRAIN_DTYPE_INT8,   ORTRAIN_DTYPE_UINT8, ORTRAIN_DTYPE_INT16,  ORTRAIN_DTYPE_UINT16, ORTRAIN_DTYPE_INT32,
    ORTRAIN_DTYPE_UINT32, ORTRAIN_DTYPE_INT64, ORTRAIN_DTYPE_UINT64, ORTRAIN_DTYPE_BOOL,
  };
  cuda_check_begin (operators);
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (guint r = 0; r < G_N_ELEMENTS (reductions); r++)
      {
        check_elements (types[t], 5, 3, 65, reductions[r]);
        check_nd (types[t], 33, 3, 31, 9, reductions[r]);
      }
  cuda_check_end ();
}

static void
test_faults (void)
{
  cuda_check_begin (operators);
  check_nd (ORTRAIN_DTYPE_FLOAT32, 3, 5, 9, 5, "none");
  check_nd (ORTRAIN_DTYPE_FLOAT32, 3, 5, 90, 5, "add");
  CudaNode node = { 0 };
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (3, 2)));
  cuda_node_add_input (&node, cuda_node_indices (ORTRAIN_DTYPE_INT32, -9, -3, 1, CUDA_DIMS (5, 2)));
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (5, 2)));
  cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (3, 2)));
  cuda_node_check (&node, "", "ScatterElements", "axis=0");
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-scatter/cases", test_cases);
  g_test_add_func ("/cuda-scatter/floating", test_floating);
  g_test_add_func ("/cuda-scatter/types", test_types);
  g_test_add_func ("/cuda-scatter/faults", test_faults);
  return g_test_run ();
}
