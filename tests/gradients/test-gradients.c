/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/gradient-cases.h"

#include "ops/ortrain-op-private.h"

#include <string.h>

/* Every differentiable operator of the table against central differences in float64: at most 1e-7. An operator with a
 * gradient and without a case here fails the last test. */

#define LIMIT 1e-7

static void
test_case (gconstpointer data)
{
  const OrtrainGradientCase *test = data;
  g_autofree char *message = NULL;
  double worst = ortrain_gradient_check (test, &message);
  if (worst < 0.0)
    g_test_message ("%s (%s) {%s}: %s", test->op_type, test->inputs, test->attributes, message);
  else if (worst > LIMIT)
    g_test_message ("%s (%s) {%s}: off by %.2e", test->op_type, test->inputs, test->attributes, worst);
  if (worst < 0.0 || worst > LIMIT)
    g_test_fail ();
}

/* ---- Operands without elements ---- */

/* Operators without a gradient, or without one yet. */
static const OrtrainGradientCase forward_cases[] = {
  { "Sign", "f[2,3]" },
  { "Floor", "f[2,3]" },
  { "Ceil", "f[2,3]" },
  { "Round", "f[2,3]" },
  { "BitShift", "o[2,3];o[3]", "direction='RIGHT'" },
  { "BitwiseAnd", "i[2,3];i[3]" },
  { "BitwiseOr", "i[2,3];i[3]" },
  { "BitwiseXor", "i[2,3];i[3]" },
  { "BitwiseNot", "i[2,3]" },
  { "Equal", "f[2,3];f[3]" },
  { "Less", "f[2,3];f[3]" },
  { "Greater", "f[2,3];f[3]" },
  { "LessOrEqual", "f[2,3];f[3]" },
  { "GreaterOrEqual", "f[2,3];f[3]" },
  { "And", "b[2,3];b[3]" },
  { "Or", "b[2,3];b[3]" },
  { "Xor", "b[2,3];b[3]" },
  { "Not", "b[2,3]" },
  { "IsNaN", "f[2,3]" },
  { "IsInf", "f[2,3]" },
  { "ArgMax", "f[2,3]", "axis=1" },
  { "ArgMin", "f[2,3]", "axis=0 keepdims=0" },
  { "Hardmax", "f[2,3]" },
  { "NonZero", "f[2,3]" },
  { "Unique", "f[2,3]", NULL, 4 },
  { "Unique", "f[2,3]", "axis=1", 4 },
  { "Shape", "f[2,3]" },
  { "Size", "f[2,3]" },
  { "ConstantOfShape", "i[2]{2,3}" },
  { "EyeLike", "f[2,3]", "k=1" },
  { "Range", "d{0};d{3};d{1}" },
  { "BitCast", "i[2,3]", "to=11" },
  { "NonMaxSuppression", "s[1,3,4];s[1,2,3];i{2};s{0.5};s{-1}" },
  { "MatMulInteger", "o[2,3];a[3,4];o;a" },
  { "MatMulInteger", "o[2,3];a[3,4];o[2];a[4]" },
  { "QLinearMatMul", "o[2,3];s{0.5};o;a[3,4];s{0.5};a;s{2};o" },
  { "QLinearMatMul", "o[2,3];s[2]{0.5,1};o[2];a[3,4];s[4]{0.5,1,1,2};a[4];s{2};o" },
  { "QuantizeLinear", "s[2,3];s{0.5};o" },
  { "QuantizeLinear", "s[2,3];s[3]{1,2,3};o[3]", "axis=1" },
  { "QuantizeLinear", "s[2,4];s[2,2]{1,2,3,4};o[2,2]", "axis=1 block_size=2" },
  { "DequantizeLinear", "o[2,3];s{0.5};o" },
  { "DequantizeLinear", "o[2,3];s[2]{1,2};o[2]", "axis=0" },
  { "DynamicQuantizeLinear", "s[2,3]", NULL, 3 },
  { "RandomNormalLike", "f[2,3]" },
  { "RandomUniformLike", "f[2,3]" },
  { "Bernoulli", "p[2,3]" },
  { "Multinomial", "f[2,3]", "sample_size=4" },
  { "Scatter", "f[3,3];i[2,3]{1,0,2,0,2,1};f[2,3]" },
  { "Upsample", "f[1,1,2,3];d[4]{1,1,2,2}" },
};

/* Operands that are trained, though elsewhere they are constants. */
static const OrtrainGradientCase computed_cases[] = {
  { "Pad", "f[2,3];i[4]{1,0,-1,2};d{0.5}" },
  { "Pad", "f[2,3];i[2]{1,2};d{0.5};i[1]{1}" },
  { "Pad", "f[2,3];i[4]{1,0,0,2};d{0.5}", "mode='edge'" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];c[3,5];f[2,1,1,5]", "scale=0.5f", 1, "org.ortrain" },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];c[2,1,3,5]", "guard=2", 1, "org.ortrain" },
  { "Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,2];c[2,3]", "is_causal=1" },
  { "BatchNormalization", "f[2,3];c[3];c[3];c[3];q[3]", "epsilon=0.1f" },
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,2,1};q[4]" },
  { "SoftmaxCrossEntropyLoss", "f[3,4];i[3]{0,2,1};q[4]", "reduction='none' ignore_index=2" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,-1};q[3]", "ignore_index=-1" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,1};q[3]", "reduction='sum'" },
  { "BatchNormalization", "f[1,2,2,2];f[2];f[2];c[2];q[2]" },
};

/* The inputs with extent `extent` (0: that of the dimension number `dimension`) replaced by 0, in shapes and, for
 * `contents`, in the numbers of int64 constants too. NULL if there is no such input. */
static char *
make_empty (const char *inputs, gint64 extent, gint dimension, gboolean contents)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gint n = 0;
  gboolean replaced = FALSE, numbers = FALSE;
  char bracket = 0, kind = inputs[0];
  for (const char *p = inputs; *p != '\0';)
    {
      if (g_ascii_isdigit (*p) && (bracket == '[' || numbers))
        {
          char *end;
          gint64 value = g_ascii_strtoll (p, &end, 10);
          gboolean here =
              bracket == '[' ? (dimension >= 0 ? n == dimension : value == extent) : dimension < 0 && value == extent;
          n += bracket == '[';
          replaced = replaced || (here && bracket == '[');
          g_string_append_printf (text, "%" G_GINT64_FORMAT, here ? 0 : value);
          p = end;
          continue;
        }
      if (*p == ';')
        kind = p[1];
      if (strchr ("[{;", *p) != NULL)
        bracket = *p;
      else if (strchr ("]}", *p) != NULL)
        bracket = 0;
      numbers = bracket == '{' && contents && strchr ("iI", kind) != NULL;
      g_string_append_c (text, *p++);
    }
  return replaced ? g_string_free (g_steal_pointer (&text), FALSE) : NULL;
}

typedef struct
{
  guint computed, refused;
} EmptyCounts;

/* Either an error that says why, or outputs and gradients that fit (no elements are right in any number). */
static void
check_empty (const OrtrainGradientCase *test, char *inputs, gboolean forward, EmptyCounts *counts)
{
  g_autofree char *message = NULL, *owned G_GNUC_UNUSED = inputs;
  /* operands of gradients are written by the rules of the others */
  if (inputs == NULL || g_str_has_suffix (test->op_type, "Grad"))
    return;
  OrtrainGradientCase empty = *test;
  empty.inputs = inputs;
  gboolean ok =
      forward ? ortrain_gradient_check_forward (&empty, &message) : ortrain_gradient_check (&empty, &message) >= 0;
  if (ok)
    counts->computed++;
  else
    {
      counts->refused++;
      g_assert_nonnull (message);
      /* a refusal is of an operand or a shape; a gradient of another shape is a mistake */
      if (g_str_has_prefix (message, "The gradient of"))
        {
          g_test_message ("%s (%s): %s", test->op_type, inputs, message);
          g_test_fail ();
        }
      if (g_test_verbose ())
        g_test_message ("%s (%s): %s", test->op_type, inputs, message);
    }
}

static void
check_empty_cases (const OrtrainGradientCase *tests, guint n_tests, gboolean forward)
{
  EmptyCounts counts = { 0 };
  for (guint t = 0; t < n_tests; t++)
    {
      for (gint dimension = 0; dimension < 16; dimension++)
        check_empty (&tests[t], make_empty (tests[t].inputs, 0, dimension, FALSE), forward, &counts);
      for (gint64 extent = 1; extent <= 8; extent++)
        {
          check_empty (&tests[t], make_empty (tests[t].inputs, extent, -1, FALSE), forward, &counts);
          check_empty (&tests[t], make_empty (tests[t].inputs, extent, -1, TRUE), forward, &counts);
        }
    }
  g_test_message ("%u computed, %u refused", counts.computed, counts.refused);
  g_assert_cmpuint (counts.computed, >, n_tests);
}

static void
test_empty_operands (void)
{
  check_empty_cases (cases, G_N_ELEMENTS (cases), FALSE);
}

static void
test_empty_forward (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (forward_cases); i++)
    {
      g_autofree char *message = NULL;
      if (!ortrain_gradient_check_forward (&forward_cases[i], &message))
        {
          g_test_message ("%s (%s): %s", forward_cases[i].op_type, forward_cases[i].inputs, message);
          g_test_fail ();
        }
    }
  check_empty_cases (forward_cases, G_N_ELEMENTS (forward_cases), TRUE);
}

/* In ops/test-sequences.c: they are resolved when a file is read. */
static const char *const tested_elsewhere[] = {
  "SplitToSequence", "SequenceConstruct", "SequenceAt",         "SequenceLength",
  "SequenceInsert",  "SequenceErase",     "ConcatFromSequence", NULL,
};

/* Every operator of ONNX is in one of the two tables, but for those without operands. */
static void
test_every_operator_is_emptied (void)
{
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      gboolean found = op->domain[0] != '\0' || op->max_inputs == 0 || (op->flags & ORTRAIN_OP_CONTROL) != 0 ||
                       op->unsupported != NULL || g_strv_contains (tested_elsewhere, op->name);
      for (guint k = 0; k < G_N_ELEMENTS (cases) && !found; k++)
        found = g_str_equal (cases[k].op_type, op->name);
      for (guint k = 0; k < G_N_ELEMENTS (forward_cases) && !found; k++)
        found = g_str_equal (forward_cases[k].op_type, op->name);
      if (!found)
        {
          g_test_message ("%s has no case", op->name);
          g_test_fail ();
        }
    }
}

/* ---- Operands that are constants elsewhere ---- */

/* (operator, operand) pairs that have been tried: "Pad 2". */
typedef struct
{
  GHashTable *tried;
  guint computed, refused;
} ComputedCounts;

/* Cases that are refused when an operand is computed from a trained value. */
static const struct
{
  const char *op_type;
  guint input;
  const char *reason;
} refused_operands[] = {
  { "Dropout", 1, "a ratio decides which elements are dropped, in steps" },
  { "Attention", 5, "the ratio of its dropout" },
  { "RelativeAttention", 8, "the ratio of its dropout" },
  { "RelativeAttention", 7, "a pass writes it, with a mask of truth values or of data" },
  { "PackedAttention", 1, "a pass writes it, with a mask of truth values or of data" },
  { "PackedAttention", 2, "a pass writes it, without a bias" },
  { "PackedAttention", 3, "the ratio of its dropout" },
  { "Resize", 2, "scale factors decide shapes" },
  { "Upsample", 1, "scale factors decide shapes" },
  { "Range", 0, "it decides a shape" },
  { "Range", 1, "it decides a shape" },
  { "Range", 2, "it decides a shape" },
  { "CrossEntropy", 2, "class weights with smoothed labels" },
};

static gboolean
may_be_refused (const OrtrainGradientCase *test, guint input)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused_operands); i++)
    if (g_str_equal (refused_operands[i].op_type, test->op_type) && refused_operands[i].input == input)
      return TRUE;
  return FALSE;
}

static void
check_computed (const OrtrainGradientCase *test, ComputedCounts *counts)
{
  g_auto (GStrv) inputs = g_strsplit (test->inputs, ";", -1);
  for (guint i = 0; inputs[i] != NULL; i++)
    {
      const char kind = g_strstrip (inputs[i])[0];
      g_hash_table_add (counts->tried,
                        g_strdup_printf ("%s:%s %u", test->domain != NULL ? test->domain : "", test->op_type, i));
      if (strchr ("cdqzy", kind) == NULL)
        continue;
      g_autofree char *message = NULL;
      const double worst = ortrain_gradient_check_computed (test, i, &message);
      const char *told = worst < 0 ? strstr (message, " no gradient") : NULL;
      counts->computed += worst >= 0;
      counts->refused += told != NULL;
      if ((worst >= 0 && worst <= LIMIT) || (told != NULL && may_be_refused (test, i)))
        continue;
      g_test_message ("%s (%s) {%s}, input %u computed: %s, off by %.2e", test->op_type, test->inputs, test->attributes,
                      i, message, worst);
      g_test_fail ();
    }
}

/* The gradient is right, or an error, whichever operand is computed from a trained value. */
static void
test_every_operand_computed (void)
{
  g_autoptr (GHashTable) tried = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  ComputedCounts counts = { tried, 0, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check_computed (&cases[i], &counts);
  for (guint i = 0; i < G_N_ELEMENTS (forward_cases); i++)
    check_computed (&forward_cases[i], &counts);
  for (guint i = 0; i < G_N_ELEMENTS (computed_cases); i++)
    check_computed (&computed_cases[i], &counts);
  g_test_message ("%u gradients of constants, %u refused", counts.computed, counts.refused);
  g_assert_cmpuint (counts.computed, >, 20);

  /* No row takes an operand of a floating type for a constant, or says that its gradient is zero, without a case. */
  for (guint n = 0; n < ortrain_ops_get_n (); n++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (n);
      if (op->gradient == NULL || op->types == NULL)
        continue;
      g_assert_cmphex (op->zero_grad_inputs & ~op->no_grad_inputs, ==, 0);
      const guint n_letters = (guint) strlen (op->types);
      for (guint i = 0; i < 32 && (op->max_inputs < 0 || i < (guint) op->max_inputs); i++)
        {
          const char letter = op->types[MIN (i, n_letters - 1)];
          g_autofree char *pair = g_strdup_printf ("%s:%s %u", op->domain, op->name, i);
          if (!(op->no_grad_inputs >> i & 1) || strchr ("bilq", letter) != NULL || g_hash_table_contains (tried, pair))
            continue;
          g_test_message ("%s, input %u: the row says that no gradient flows into it, and no case tries it", op->name,
                          i);
          g_test_fail ();
        }
    }
}

static void
test_every_operator_has_a_case (void)
{
  guint n_ops = 0;
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      if (op->gradient == NULL)
        continue;
      n_ops++;
      gboolean found = FALSE;
      for (guint k = 0; k < G_N_ELEMENTS (cases) && !found; k++)
        found = g_str_equal (cases[k].op_type, op->name) &&
                g_strcmp0 (cases[k].domain != NULL ? cases[k].domain : "", op->domain) == 0;
      if (!found)
        {
          g_test_message ("%s%s%s has a gradient and no case", op->domain, op->domain[0] != '\0' ? "::" : "", op->name);
          g_test_fail ();
        }
    }
  g_test_message ("%u cases for %u differentiable operators", (guint) G_N_ELEMENTS (cases), n_ops);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/gradients/%s/%u", cases[i].op_type, i);
      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/gradients/every-operator-has-a-case", test_every_operator_has_a_case);
  g_test_add_func ("/gradients/every-operand-computed", test_every_operand_computed);
  g_test_add_func ("/gradients/empty/operands", test_empty_operands);
  g_test_add_func ("/gradients/empty/forward", test_empty_forward);
  g_test_add_func ("/gradients/empty/every-operator", test_every_operator_is_emptied);
  return g_test_run ();
}
