/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "covered-by-models.h"
#include "gradients/gradient-cases.h"
#include "gradients/update-cases.h"

#include "ops/ortrain-op-private.h"

#include <string.h>

/* Each operator of our own, and Einsum, against its body in standard ONNX operators, on the operands of the gradients'
 * cases and of those here, in float64 and in 16 bits. */

#define LIMIT 1e-13

static const OrtrainGradientCase more[] = {
  { "FusedMatMul", "f[2,3,4];f[4,2,5]", "permA=[0,2,1] transA=1 permB=[1,0,2] alpha=0.5f", 1, "org.ortrain" },
  { "FusedMatMul", "f[2,3,4];f[2,5,4]", "transB=1 permY=[1,0,2]", 1, "org.ortrain" },
  { "FusedMatMul", "f[3];f[3,2]", "transA=1", 1, "org.ortrain" },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,1,1}", "axis=1 ignore_index=1 reduction='none'", 3, "org.ortrain" },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,-1,1};d[3]{0.5,1,2}",
    "axis=1 ignore_index=-1 reduction='sum' label_smoothing=0.1f", 3, "org.ortrain" },
  { "CrossEntropy", "f[3,4];j[3]{0,3,1}", "axis=-1", 3, "org.ortrain" },
  { "LinearCrossEntropy", "f[5,3];f[3,4];i[5]{0,3,1,2,3};d[]{0.5}", "rows=2", 4, "org.ortrain" },
  { "LinearCrossEntropy", "f[2,3,3];f[4,3];j[2,3]{0,3,-1,2,3,-1};d[]{2};f[4];d[4]{0.5,1,2,0.25}",
    "transB=1 transW=1 rows=4 ignore_index=-1 label_smoothing=0.1f", 4, "org.ortrain" },
  { "LinearCrossEntropy", "f[7,2];f[5,2];i[7]{0,4,2,2,1,3,2};d[]{1};f[5]",
    "transB=1 rows=3 ignore_index=2 reduction='sum'", 4, "org.ortrain" },
  { "LinearCrossEntropy", "f[4,3];f[3,6];i[4]{5,0,1,2};d[]{1}", "transW=1 label_smoothing=0.3f rows=1", 4,
    "org.ortrain" },
  { "LinearCrossEntropy", "f[4,3];f[3,6];i[4]{5,0,1,2}", "reduction='sum' rows=3", 1, "org.ortrain" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];b[2,1,1,5]{1,0,1,0,1,0,0,0,0,0}", "scale=0.5f guard=2", 2,
    "org.ortrain" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];f[3,5]", "scale=0.5f guard=2", 2, "org.ortrain" },
  { "Attention", "f[2,3,2,4];f[2,5,2,4];f[2,5,2,3]", "packed=15", 2, "org.ortrain" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];b[3,5]{1,1,1,0,0,0,0,0,0,0,1,1,0,1,1};f[2,1,5]",
    "scale=0.5f guard=2", 2, "org.ortrain" },
  { "PackedAttention", "f[2,5,3,2,4];f[5,5]", "scale=0.5f guard=2", 2, "org.ortrain" },
  { "BatchNormTrain", "f[3,2,2];f[2];f[2];d[2]{0.1,0.2};d[2]{1,1.5}", "momentum=0.7f", 6, "org.ortrain" },
  { "NormApply", "f[3,2,2];f[2,1];f[2,1];f[2,1]", NULL, 1, "org.ortrain" },
  { "GroupNormStatistics", "f[2,6,3,2];f[6]", "num_groups=3 epsilon=0.01f", 3, "org.ortrain" },
  { "GroupNormStatistics", "f[3,2,5];f[2]", NULL, 3, "org.ortrain" },
  { "GroupNormGrad", "f[2,6,3,2];f[2,6,3,2];f[6];f[2,6,1,1];f[2,6,1,1]", "num_groups=6", 3, "org.ortrain" },
  { "MaxPoolTrain", "f[1,2,5,4]", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,0]", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[1,1,4]", "kernel_shape=[2] strides=[3] pads=[3,3] dilations=[2]", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[2,1,5,5]", "kernel_shape=[3,3] strides=[2,2] auto_pad='SAME_LOWER'", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[1,2,5,4]", "kernel_shape=[2,2] strides=[2,2] ceil_mode=1", 2, "org.ortrain" },
  { "Im2Col", "f[2,3,5,4];i[2]{2,3};i[3]{2,18,16}", "pads=[1,1,0,1] dilations=[2,1]", 1, "org.ortrain" },
  { "GatherGrad", "f[2,2,3];i[2,2]{0,-1,1,0};i[2]{4,3}", "axis=0", 1, "org.ortrain" },
  { "SplitGrad", "i[2]{2,6};_;f[2,2];_;f[2,2]", "axis=1 num_outputs=3", 1, "org.ortrain" },
  { "SplitGrad", "i[2]{5,2};i[2]{1,4};_;f[4,2]", "axis=0 num_outputs=2", 1, "org.ortrain" },
};

/* Differentiated cases too: their gradients' operators, of more attributes. */
static const OrtrainGradientCase rules[] = {
  { "Conv", "f[2,4,6,5];f[4,2,3,2];f[4]", "group=2 strides=[2,1] pads=[1,0,2,1] dilations=[1,2]" },
  { "Conv", "f[1,2,7];f[2,2,3]", "auto_pad='SAME_LOWER' strides=[2]" },
  { "Conv", "f[1,2,7];f[2,2,3]", "auto_pad='VALID' strides=[3]" },
  { "Conv", "f[1,2,7,6];f[2,2,3,2]", "pads=[-1,1,2,-2] strides=[2,1]" },
  { "RNN", "f[3,2,3];f[2,2,3];f[2,2,2];f[2,4];j[2]{2,3};f[2,2,2]",
    "direction='bidirectional' activations=['ScaledTanh','HardSigmoid'] activation_alpha=[0.8f,0.3f] "
    "activation_beta=[1.2f,0.4f]",
    2 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];j[2]{2,3};f[1,2,2];f[1,2,2];f[1,6]",
    "activations=['HardSigmoid','Softsign','ScaledTanh'] activation_alpha=[0.25f,0.9f] activation_beta=[0.45f,1.1f]",
    3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2];f[1,6]",
    "activations=['Sigmoid','Affine','LeakyRelu'] activation_alpha=[1f] activation_beta=[0f] input_forget=1 "
    "direction='reverse' clip=0.8f",
    3 },
  { "LSTM", "f[1,2,3];f[2,8,3];f[2,8,2];f[2,16];j[2]{1,0}",
    "activations=['Sigmoid','Elu','Softplus','Sigmoid','Tanh','Elu'] direction='bidirectional'", 3 },
  { "GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];j[2]{3,1};f[2,2,2]",
    "direction='bidirectional' linear_before_reset=1 activations=['HardSigmoid','Relu','Sigmoid','ThresholdedRelu'] "
    "activation_alpha=[0.3f,0.1f]",
    2 },
  { "MaxPool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] auto_pad='SAME_UPPER'" },
  { "MaxPool", "f[1,1,18,18]", "kernel_shape=[17,16]" },
  { "MaxPool", "f[2,2,5,4]", "kernel_shape=[2,3] strides=[2,1] storage_order=1", 2 },
  { "MaxPool", "f[1,2,3,4,3]", "kernel_shape=[2,2,2] pads=[1,0,0,0,1,0] storage_order=1", 2 },
  { "MaxPool", "f[1,2,3,4,3]", "kernel_shape=[2,2,2] pads=[1,0,0,0,1,0]", 2 },
  { "MaxUnpool", "f[1,2,2,2];i[1,2,2,2]{0,3,9,15,16,22,26,31};i[4]{1,2,5,6}", "kernel_shape=[2,2] strides=[2,2]" },
  { "MaxUnpool", "f[1,1,3];i[1,1,3]{1,2,4}", "kernel_shape=[3] strides=[2] pads=[1,1]" },
  { "GridSample", "f[1,2,3,4];f[1,3,2,2]", "mode='cubic' padding_mode='reflection' align_corners=1" },
  { "GridSample", "f[1,2,3,4];f[1,3,2,2]", "mode='cubic'" },
  { "GridSample", "f[1,2,3,4];f[1,3,2,2]", "padding_mode='border'" },
  { "GridSample", "f[2,1,3,2];f[2,3,2,2]", "padding_mode='reflection' align_corners=1" },
  { "GridSample", "f[1,2,1,3];f[1,3,2,2]", "padding_mode='reflection' align_corners=1" },
  { "GridSample", "f[1,1,2,3,2];f[1,2,1,2,3]", "padding_mode='border'" },
  { "GridSample", "f[1,1,2,3,2];f[1,2,1,2,3]", "mode='cubic' padding_mode='reflection'" },
  { "GridSample", "f[1,2,5];f[1,4,1]" },
  { "GridSample", "f[1,2,3,4];c[1,3,2,2]", "mode='nearest' padding_mode='reflection'" },
  { "GridSample", "f[1,2,3,4];d[1,1,3,2]{1e12,0.2,nan,0.1,-inf,inf}", "padding_mode='border'" },
  { "AveragePool", "f[1,1,6,5]", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,0] ceil_mode=1" },
  { "AveragePool", "f[1,1,6,5]", "kernel_shape=[3,2] strides=[2,3] pads=[1,1,1,0] ceil_mode=1 count_include_pad=1" },
  { "AveragePool", "f[1,2,7]", "kernel_shape=[2] strides=[2] dilations=[2] auto_pad='SAME_UPPER'" },
  { "LpPool", "f[1,2,5,4]", "kernel_shape=[2,3] pads=[1,0,0,1] p=3" },
  { "Resize", "f[1,1,4,5];_;d[4]{1,1,0.5,0.6}", "mode='cubic'" },
  { "Resize", "f[1,1,4,5];_;_;i[4]{1,1,7,3}", "mode='linear' antialias=1" },
  { "Resize", "f[1,1,4,5];d[8]{0,0,0.2,0.1,1,1,0.7,1.2};_;i[4]{1,1,3,3}",
    "mode='linear' coordinate_transformation_mode='tf_crop_and_resize' extrapolation_value=9f" },
  { "Resize", "f[4,5];_;_;i[1]{9}", "mode='nearest' axes=[-1]" },
  { "Resize", "f[1,4,5];_;_;i[2]{7,6}", "mode='linear' axes=[1,2] keep_aspect_ratio_policy='not_larger'" },
  { "Resize", "f[4,5];_;_;i[2]{7,6}", "mode='cubic' axes=[1,-2] keep_aspect_ratio_policy='not_smaller'" },
  { "Resize", "f[3,2];_;_;i[2]{2,3}", "mode='linear' antialias=1 keep_aspect_ratio_policy='not_smaller'" },
  { "Resize", "f[6,3];_;_;i[2]{5,5}", "mode='nearest' keep_aspect_ratio_policy='not_larger' nearest_mode='ceil'" },
  { "Resize", "f[4,3];d[4]{0.1,0.2,0.9,1.3};_;i[2]{5,5}",
    "mode='linear' coordinate_transformation_mode='tf_crop_and_resize' keep_aspect_ratio_policy='not_larger'" },
  { "ReduceProd", "f[2,3,4];i[2]{0,-1}" },
  { "LRN", "f[1,6,3]", "size=4 alpha=0.3f beta=0.6f bias=1.5f" },
  { "GroupNormalization", "f[2,6,3,2];f[6];f[6]", "num_groups=3 epsilon=0.01f" },
  { "Einsum", "f[2,3];f[3,4];f[4]", "equation='ij,jk,k->i'" },
  { "Einsum", "f[2,3,4];f[4]", "equation='ijk,k->i'" },
  { "Einsum", "f[1,3];f[2,3]", "equation='ij,ij->ij'" },
  { "Einsum", "f[3,3]", "equation='ii->i'" },
  { "Einsum", "f[3,3]", "equation='ii'" },
  { "Einsum", "f[3,2,3];f[2,3]", "equation='iji,ji->j'" },
  { "Einsum", "f[2,2,2];f[2]", "equation='iii,i->i'" },
  { "Einsum", "f[2,2,3,2];f[2,3]", "equation='b...b,bi->...i'" },
  { "Einsum", "f[2,3,4]", "equation='ijk->ijk'" },
  { "Einsum", "f[2,0];f[0,3]", "equation='ij,jk->ik'" },
  { "Einsum", "f[0,2];f[2,2]", "equation='ij,jj->i'" },
  { "Einsum", "f[0,0]", "equation='ii->i'" },
  { "Einsum", "f[2,3,4]", "equation='ijk->j'" },
  { "Einsum", "f[2,3,2,3]", "equation='abab->ba'" },
  { "Einsum", "f[2,3,2,3]", "equation='abab'" },
  { "Einsum", "f[1,3]", "equation='ii->i'" },
  { "Einsum", "f[];f[2]", "equation=',i->i'" },
  { "Einsum", "f[2];f[3];f[2]", "equation='i,j,k->kji'" },
  { "Einsum", "f[2,3];f[2,3]", "equation='ij,ij->'" },
  { "Einsum", "f[2,3];f[2,3]", "equation='ij,ij->i'" },
  { "Einsum", "f[2,3];f[1,3];f[2,1]", "equation='ij,ij,ij->ji'" },
  { "Einsum", "f[2,1,2,3];f[3,3,2]", "equation='...ij,...jk->...ik'" },
  { "Einsum", "f[2,2,3];f[2,3,2];f[2,2]", "equation='bij,bjk,bk->bi'" },
  { "Einsum", "f[2,3];f[3,2];f[2,4];f[4]", "equation='ab,bc,cd,d->a'" },
  { "Einsum", "f[2,2,3,2];f[2,2,4,2]", "equation='abij,abkj->abik'" },
  { "Einsum", "f[2,3,2];f[4,3,2]", "equation='i...j,k...j->...'" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,1};d[3]{0.5,1,2}", "reduction='none' ignore_index=1" },
};

static const struct
{
  const OrtrainGradientCase *cases;
  guint n;
  gboolean differentiated;
} tables[] = { { more, G_N_ELEMENTS (more), FALSE },
               { updates, G_N_ELEMENTS (updates), FALSE },
               { cases, G_N_ELEMENTS (cases), TRUE },
               { rules, G_N_ELEMENTS (rules), TRUE } };

/* The results of all cases, by operator. A case may be refused because no kernel takes this type. */
static GHashTable *
run_cases (OrtrainDType dtype, guint *n_refused)
{
  GHashTable *checks = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  *n_refused = 0;
  ortrain_gradient_check_set_dtype (dtype);
  ortrain_gradient_check_compare_bodies (checks);
  for (guint t = 0; t < G_N_ELEMENTS (tables); t++)
    for (guint i = 0; i < tables[t].n; i++)
      {
        const OrtrainGradientCase *test = &tables[t].cases[i];
        g_autofree char *message = NULL;
        if (tables[t].differentiated ? ortrain_gradient_check (test, &message) >= 0
                                     : ortrain_gradient_check_forward (test, &message))
          continue;
        ++*n_refused;
        if (dtype != ORTRAIN_DTYPE_FLOAT64 && strstr (message, "has no kernel for") != NULL)
          continue;
        g_test_message ("%s %s (%s): %s", ortrain_dtype_get_name (dtype), test->op_type, test->inputs, message);
        g_test_fail ();
      }
  ortrain_gradient_check_compare_bodies (NULL);
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT64);
  return checks;
}

static void
test_bodies (void)
{
  guint n_refused;
  g_autoptr (GHashTable) checks = run_cases (ORTRAIN_DTYPE_FLOAT64, &n_refused);
  g_assert_cmpuint (n_refused, ==, 0);
  guint n_bodies = 0, n_without = 0;
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      if (!g_str_equal (op->domain, ORTRAIN_DOMAIN))
        {
          g_assert_null (op->no_body);
          if (op->expand == NULL)
            continue;
        }
      else if ((op->expand == NULL) == (op->no_body == NULL))
        g_error ("%s needs a body or the reason why it has none, and not both", op->name);
      n_bodies += op->expand != NULL;
      n_without += op->expand == NULL;
      if (op->expand == NULL || g_strv_contains (covered_by_models, op->name) || g_strv_contains (of_devices, op->name))
        continue;
      const OrtrainBodyCheck *check = g_hash_table_lookup (checks, op->name);
      const gboolean ok = check != NULL && check->n_nodes > 0 && check->n_none == 0 && check->worst <= LIMIT;
      g_test_message ("%s %s: %u compared, %u without a body, %g", ok ? "ok  " : "FAIL", op->name,
                      check != NULL ? check->n_nodes : 0, check != NULL ? check->n_none : 0,
                      check != NULL ? check->worst : 0);
      if (!ok)
        g_test_fail ();
    }
  g_test_message ("%u operators have bodies, %u do not", n_bodies, n_without);
  g_assert_cmpuint (n_bodies, >, 60);
  /* Accumulate, BeginUpdate, Copy, Offload, PackBits, Reload, StepGuard, StopGradient, UnpackBits */
  g_assert_cmpuint (n_without, <=, 9);
}

/* In 16 bits, where the CPU's kernel takes them: both compute in float32 and round once, so that an element differs by
 * one unit in its last place at most. Refused are cases of operators without such a kernel, which their bodies stand
 * for in a session. */
static void
test_half (gconstpointer data)
{
  static const char *const without_kernel[] = { "GridSampleGrad", NULL };
  const OrtrainDType dtype = GPOINTER_TO_INT (data);
  const double limit = dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-10 : 0x1p-7;
  guint n_refused, n_compared = 0;
  g_autoptr (GHashTable) checks = run_cases (dtype, &n_refused);
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      if (op->expand == NULL || g_strv_contains (covered_by_models, op->name) || g_strv_contains (of_devices, op->name))
        continue;
      const OrtrainBodyCheck *check = g_hash_table_lookup (checks, op->name);
      const guint n = check != NULL ? check->n_nodes : 0;
      const gboolean ok =
          g_strv_contains (without_kernel, op->name) ? n == 0 : n > 0 && check->n_none == 0 && check->worst <= limit;
      n_compared += n;
      if (ok)
        continue;
      g_test_message ("%s: %u compared, %g apart", op->name, n, check != NULL ? check->worst : 0);
      g_test_fail ();
    }
  g_test_message ("%u nodes compared, %u cases without a kernel", n_compared, n_refused);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bodies/float64", test_bodies);
  g_test_add_data_func ("/bodies/float16", GINT_TO_POINTER (ORTRAIN_DTYPE_FLOAT16), test_half);
  g_test_add_data_func ("/bodies/bfloat16", GINT_TO_POINTER (ORTRAIN_DTYPE_BFLOAT16), test_half);
  return g_test_run ();
}
