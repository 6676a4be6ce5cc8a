/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

#include "ops/rows/ortrain-op-families.h" /* written by meson */

/* The operator table, put together from the families. */

#define DECLARE(family) extern const OrtrainOpTable ortrain_ops_##family;
ORTRAIN_OP_FAMILIES (DECLARE)

#define ENTRY(family) &ortrain_ops_##family,
static const OrtrainOpTable *const tables[] = { ORTRAIN_OP_FAMILIES (ENTRY) NULL };

typedef struct
{
  GHashTable *by_key; /* "domain:name" → row */
  GPtrArray *rows;
} Index;

static const Index *
get_index (void)
{
  static gsize once;
  if (g_once_init_enter (&once))
    {
      Index *index = g_new0 (Index, 1);
      index->by_key = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      index->rows = g_ptr_array_new ();
      for (const OrtrainOpTable *const *t = tables; *t != NULL; t++)
        for (guint i = 0; i < (*t)->n_ops; i++)
          {
            const OrtrainOpDef *row = &(*t)->ops[i];
            g_hash_table_insert (index->by_key, g_strdup_printf ("%s:%s", row->domain, row->name), (gpointer) row);
            g_ptr_array_add (index->rows, (gpointer) row);
          }
      g_once_init_leave (&once, (gsize) index);
    }
  return (const Index *) once;
}

const OrtrainOpDef *
ortrain_ops_lookup (const char *domain, const char *op_type)
{
  char buffer[128];
  if (g_str_equal (domain, "ai.onnx"))
    domain = "";
  if (g_snprintf (buffer, sizeof buffer, "%s:%s", domain, op_type) >= (gint) sizeof buffer)
    return NULL;
  return g_hash_table_lookup (get_index ()->by_key, buffer);
}

guint
ortrain_ops_get_n (void)
{
  return get_index ()->rows->len;
}

const OrtrainOpDef *
ortrain_ops_get_nth (guint index)
{
  return get_index ()->rows->pdata[index];
}

gint
ortrain_op_pass_only_input (const OrtrainNode *node)
{
  return node->inputs->len == 1 ? 0 : -1;
}
