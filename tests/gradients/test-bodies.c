/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/gradient-cases.h"

#include "ops/ortrain-op-private.h"

/* Each operator of our own against its body in standard ONNX operators, on the operands of the gradients' cases and of
 * those here, in float64. */

#define LIMIT 1e-11

static const OrtrainGradientCase more[] = {
  { "FusedMatMul", "f[2,3,4];f[4,2,5]", "permA=[0,2,1] transA=1 permB=[1,0,2] alpha=0.5f", 1, "org.ortrain" },
  { "FusedMatMul", "f[2,3,4];f[2,5,4]", "transB=1 permY=[1,0,2]", 1, "org.ortrain" },
  { "FusedMatMul", "f[3];f[3,2]", "transA=1", 1, "org.ortrain" },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,1,1}", "axis=1 ignore_index=1 reduction='none'", 3, "org.ortrain" },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,-1,1};d[3]{0.5,1,2}",
    "axis=1 ignore_index=-1 reduction='sum' label_smoothing=0.1f", 3, "org.ortrain" },
  { "CrossEntropy", "f[3,4];j[3]{0,3,1}", "axis=-1", 3, "org.ortrain" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];b[2,1,1,5]{1,0,1,0,1,0,0,0,0,0}", "scale=0.5f guard=2", 2,
    "org.ortrain" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];f[3,5]", "scale=0.5f guard=2", 2, "org.ortrain" },
  { "Attention", "f[2,3,2,4];f[2,5,2,4];f[2,5,2,3]", "packed=15", 2, "org.ortrain" },
  { "BatchNormTrain", "f[3,2,2];f[2];f[2];d[2]{0.1,0.2};d[2]{1,1.5}", "momentum=0.7f", 5, "org.ortrain" },
  { "MaxPoolTrain", "f[1,2,5,4]", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,0]", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[1,1,4]", "kernel_shape=[2] strides=[3] pads=[3,3] dilations=[2]", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[2,1,5,5]", "kernel_shape=[3,3] strides=[2,2] auto_pad='SAME_LOWER'", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[1,2,5,4]", "kernel_shape=[2,2] strides=[2,2] ceil_mode=1", 2, "org.ortrain" },
  { "Im2Col", "f[2,3,5,4];i[2]{2,3};i[3]{2,18,16}", "pads=[1,1,0,1] dilations=[2,1]", 1, "org.ortrain" },
  { "GatherGrad", "f[2,2,3];i[2,2]{0,-1,1,0};i[2]{4,3}", "axis=0", 1, "org.ortrain" },
  { "Accumulate", "f[2,3]", NULL, 1, "org.ortrain" },
  { "Copy", "f[2,3]", NULL, 1, "org.ortrain" },
  { "SplitGrad", "i[2]{2,6};_;f[2,2];_;f[2,2]", "axis=1 num_outputs=3", 1, "org.ortrain" },
  { "SplitGrad", "i[2]{5,2};i[2]{1,4};_;f[4,2]", "axis=0 num_outputs=2", 1, "org.ortrain" },
};

/* Differentiated cases too: their gradients' operators, of more attributes. */
static const OrtrainGradientCase rules[] = {
  { "Conv", "f[2,4,6,5];f[4,2,3,2];f[4]", "group=2 strides=[2,1] pads=[1,0,2,1] dilations=[1,2]" },
  { "Conv", "f[1,2,7];f[2,2,3]", "auto_pad='SAME_LOWER' strides=[2]" },
  { "Conv", "f[1,2,7];f[2,2,3]", "auto_pad='VALID' strides=[3]" },
  { "MaxPool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] auto_pad='SAME_UPPER'" },
  { "MaxPool", "f[1,1,18,18]", "kernel_shape=[17,16]" },
  { "AveragePool", "f[1,1,6,5]", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,0] ceil_mode=1" },
  { "AveragePool", "f[1,1,6,5]", "kernel_shape=[3,2] strides=[2,3] pads=[1,1,1,0] ceil_mode=1 count_include_pad=1" },
  { "AveragePool", "f[1,2,7]", "kernel_shape=[2] strides=[2] dilations=[2] auto_pad='SAME_UPPER'" },
  { "LpPool", "f[1,2,5,4]", "kernel_shape=[2,3] pads=[1,0,0,1] p=3" },
  { "Resize", "f[1,1,4,5];_;d[4]{1,1,0.5,0.6}", "mode='cubic'" },
  { "Resize", "f[1,1,4,5];_;_;i[4]{1,1,7,3}", "mode='linear' antialias=1" },
  { "Resize", "f[1,1,4,5];d[8]{0,0,0.2,0.1,1,1,0.7,1.2};_;i[4]{1,1,3,3}",
    "mode='linear' coordinate_transformation_mode='tf_crop_and_resize' extrapolation_value=9f" },
  { "Resize", "f[4,5];_;_;i[1]{9}", "mode='nearest' axes=[-1]" },
  { "ReduceProd", "f[2,3,4];i[2]{0,-1}" },
  { "LRN", "f[1,6,3]", "size=4 alpha=0.3f beta=0.6f bias=1.5f" },
  { "GroupNormalization", "f[2,6,3,2];f[6];f[6]", "num_groups=3 epsilon=0.01f" },
  { "Einsum", "f[2,3];f[3,4];f[4]", "equation='ij,jk,k->i'" },
  { "Einsum", "f[2,3,4];f[4]", "equation='ijk,k->i'" },
  { "Einsum", "f[1,3];f[2,3]", "equation='ij,ij->ij'" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,1};d[3]{0.5,1,2}", "reduction='none' ignore_index=1" },
};

static void
test_bodies (void)
{
  g_autoptr (GHashTable) checks = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  ortrain_gradient_check_compare_bodies (checks);
  for (guint i = 0; i < G_N_ELEMENTS (more); i++)
    {
      g_autofree char *message = NULL;
      if (!ortrain_gradient_check_forward (&more[i], &message))
        {
          g_test_message ("%s (%s): %s", more[i].op_type, more[i].inputs, message);
          g_test_fail ();
        }
    }
  const OrtrainGradientCase *const tables[] = { cases, rules };
  const guint n_cases[] = { G_N_ELEMENTS (cases), G_N_ELEMENTS (rules) };
  for (guint t = 0; t < 2; t++)
    for (guint i = 0; i < n_cases[t]; i++)
      {
        g_autofree char *message = NULL;
        if (ortrain_gradient_check (&tables[t][i], &message) < 0)
          {
            g_test_message ("%s (%s): %s", tables[t][i].op_type, tables[t][i].inputs, message);
            g_test_fail ();
          }
      }
  ortrain_gradient_check_compare_bodies (NULL);

  static const char *const without[] = { "RecurrentGrad", "GridSampleGrad", NULL };
  static const char *const elsewhere[] = { "Elementwise", NULL }; /* tests of its pass run it both ways */
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      if (!g_str_equal (op->domain, ORTRAIN_DOMAIN) || g_strv_contains (elsewhere, op->name))
        continue;
      if (op->flags & ORTRAIN_OP_UPDATES) /* in place, over many tensors */
        {
          g_assert_null (op->expand);
          continue;
        }
      const OrtrainBodyCheck *check = g_hash_table_lookup (checks, op->name);
      if (g_strv_contains (without, op->name))
        {
          g_assert_null (op->expand);
          continue;
        }
      const gboolean ok = op->expand != NULL && check != NULL && check->n_nodes > 0 && check->worst <= LIMIT;
      g_test_message ("%s %s: %u compared, %u without a body, %g", ok ? "ok  " : "FAIL", op->name,
                      check != NULL ? check->n_nodes : 0, check != NULL ? check->n_none : 0,
                      check != NULL ? check->worst : 0);
      if (!ok)
        g_test_fail ();
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bodies/kernels", test_bodies);
  return g_test_run ();
}
