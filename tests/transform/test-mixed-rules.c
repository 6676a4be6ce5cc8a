/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "provider/ortrain-provider-private.h"

/* An operator whose row lets it run in 16 bits has a kernel for them: else a session of that precision would be
 * refused. */

static gboolean
has_kernel (const OrtrainOpDef *op, OrtrainDType dtype)
{
  const OrtrainProvider *provider = ortrain_provider_get_host ();
  OrtrainOperand operands[3] = { { .dtype = dtype }, { .dtype = dtype }, { .dtype = dtype } };
  /* a condition, or the input that is not there */
  if (op->dtypes != 0 && !(op->dtypes & ORTRAIN_DTYPE_BIT (dtype)))
    operands[0].dtype = ORTRAIN_DTYPE_BOOL;
  return provider->klass->find_kernel (provider, op->domain, op->name, operands, 2, operands + 2, 1) != NULL;
}

static void
test_kernels (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  guint n = 0, n_missing = 0;
  for (guint i = 0; i < ortrain_ops_get_n (); i++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (i);
      const gboolean by_flags = op->flags & (ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW);
      if (op->mixed == ORTRAIN_MIXED_WIDE || (op->mixed == ORTRAIN_MIXED_BY_FLAGS && !by_flags) ||
          !has_kernel (op, ORTRAIN_DTYPE_FLOAT32))
        continue;
      for (guint k = 0; k < G_N_ELEMENTS (types); k++)
        {
          n++;
          if (has_kernel (op, types[k]))
            continue;
          n_missing++;
          g_test_message ("%s has no kernel for %s", op->name, ortrain_dtype_get_name (types[k]));
        }
    }
  g_assert_cmpuint (n_missing, ==, 0);
  g_assert_cmpuint (n, >, 150);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mixed-rules/kernels", test_kernels);
  return g_test_run ();
}
