/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "small-graphs.h"

#include "onnx/ortrain-graph-writer-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-specialize-private.h"

#include <string.h>

#define MAX_OPEN 64

typedef struct
{
  OrtrainGraphBuilder *builder;
  GRand *rand;
  guint n; /* of the parts that have a name of their own */
} Making;

typedef struct
{
  OrtrainValue *value;
  gint64 width;
  guint n_readers;
} Open;

static const gint64 widths[] = { 16, 32, 48, 64, 96, 128 };
static const char *const unary[] = { "Relu", "Tanh", "Sigmoid", "Softplus", "Abs", "Exp" };

static const char *const small_graph_kinds[] = { "chain", "residual", "tree", "concat", "shared", "wide", NULL };

static guint
pick (Making *self, guint n)
{
  return (guint) g_rand_int_range (self->rand, 0, (gint32) n);
}

static gint64
pick_width (Making *self)
{
  return widths[pick (self, G_N_ELEMENTS (widths))];
}

static Open
open_linear (Making *self, const Open *x, gint64 width)
{
  g_autofree char *name = g_strdup_printf ("linear%u", self->n++);
  return (Open){ ortrain_graph_builder_linear (self->builder, x->value, name, width, pick (self, 2)), width, 0 };
}

static Open
open_unary (Making *self, const Open *x)
{
  const char *op = unary[pick (self, G_N_ELEMENTS (unary))];
  return (Open){ ortrain_graph_builder_unary (self->builder, op, x->value), x->width, 0 };
}

static Open
open_norm (Making *self, const Open *x)
{
  g_autofree char *name = g_strdup_printf ("norm%u", self->n++);
  return (Open){ ortrain_graph_builder_layer_norm (self->builder, x->value, name), x->width, 0 };
}

/* One operator with one operand. */
static Open
open_any (Making *self, const Open *x)
{
  const guint k = pick (self, 20);
  if (k < 9)
    return open_linear (self, x, pick_width (self));
  if (k < 14)
    return open_unary (self, x);
  if (k < 18)
    return open_norm (self, x);
  if (k < 19)
    return (Open){ ortrain_graph_builder_softmax (self->builder, x->value, -1), x->width, 0 };
  return (Open){ ortrain_graph_builder_dropout (self->builder, x->value, 0.1), x->width, 0 };
}

static Open
join (Making *self, const Open *a, const Open *b, gboolean concat)
{
  if (concat)
    {
      GVariantBuilder attributes;
      const char *const inputs[] = { ortrain_value_get_name (a->value), ortrain_value_get_name (b->value), NULL };
      g_autofree char *name = g_strdup_printf ("concat%u", self->n++);
      const char *const outputs[] = { name, NULL };
      g_variant_builder_init (&attributes, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&attributes, "{sv}", "axis", g_variant_new_int64 (1));
      return (Open){ ortrain_graph_builder_add_op (self->builder, "Concat", NULL, inputs, outputs,
                                                   g_variant_builder_end (&attributes)),
                     a->width + b->width, 0 };
    }
  const Open other = b->width == a->width ? *b : open_linear (self, b, a->width);
  const char *op = pick (self, 4) == 0 ? "Mul" : "Add";
  return (Open){ ortrain_graph_builder_binary (self->builder, op, a->value, other.value), a->width, 0 };
}

static Open
make_chain (Making *self, Open x, guint n)
{
  for (guint i = 0; i < n; i++)
    x = open_any (self, &x);
  return x;
}

static Open
make_residuals (Making *self, Open x, guint n)
{
  x = open_linear (self, &x, pick_width (self));
  for (guint i = 0; i < MAX (1, n / 3); i++)
    {
      Open y = make_chain (self, x, 1 + pick (self, 3));
      x = join (self, &x, &y, FALSE);
    }
  return x;
}

static Open
make_tree (Making *self, Open x, guint n)
{
  if (n <= 2)
    return make_chain (self, x, n);
  x = open_any (self, &x);
  const guint first = 1 + pick (self, n - 2);
  const Open a = make_tree (self, x, first), b = make_tree (self, x, MAX (1, n - 1 - first));
  return join (self, &a, &b, pick (self, 2));
}

/* Each reads all before it, as in a DenseNet. */
static Open
make_concats (Making *self, Open x, guint n)
{
  for (guint i = 0; i < MAX (1, n / 2); i++)
    {
      Open y = make_chain (self, x, 1 + pick (self, 2));
      x = join (self, &x, &y, TRUE);
    }
  return open_linear (self, &x, pick_width (self));
}

/* Any value may be read at any time, and values that nobody has read are joined at the end. */
static Open
make_shared (Making *self, Open x, guint n)
{
  Open open[MAX_OPEN];
  guint n_open = 0;
  open[n_open++] = x;
  for (guint i = 0; i < n; i++)
    {
      Open *a = &open[pick (self, n_open)];
      if (n_open > 1 && pick (self, 3) == 0)
        {
          Open *b = &open[pick (self, n_open)];
          a->n_readers++;
          b->n_readers++;
          open[n_open] = join (self, a, b, pick (self, 3) == 0);
        }
      else
        {
          a->n_readers++;
          open[n_open] = open_any (self, a);
        }
      n_open++;
    }
  Open last = open[n_open - 1];
  for (guint i = 1; i + 1 < n_open; i++)
    if (open[i].n_readers == 0)
      last = join (self, &last, &open[i], FALSE);
  return last;
}

/* A bottle that is wide in the middle, as feed-forward parts are. */
static Open
make_wide (Making *self, Open x, guint n)
{
  for (guint i = 0; i < MAX (1, n / 4); i++)
    {
      Open y = open_norm (self, &x);
      y = open_linear (self, &y, 256);
      y = open_unary (self, &y);
      y = open_linear (self, &y, x.width);
      x = join (self, &x, &y, FALSE);
    }
  return x;
}

SmallGraph *
small_graph_new_random (guint32 seed)
{
  static Open (*const makers[]) (Making *, Open, guint) = { make_chain,   make_residuals, make_tree,
                                                            make_concats, make_shared,    make_wide };
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("small");
  Making making = { builder, rand, 0 };
  const guint kind = pick (&making, G_N_ELEMENTS (makers));
  const gint64 width = pick_width (&making);
  g_autofree char *shape = g_strdup_printf ("batch, %d", (int) width);
  SmallGraph *self = g_new0 (SmallGraph, 1);
  Open x = { ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, shape), width, 0 };
  Open y = makers[kind](&making, x, 4 + pick (&making, 5));
  y = open_linear (&making, &y, pick_width (&making));
  ortrain_graph_builder_add_output (builder, y.value, "y");
  self->model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  self->name = g_strdup_printf ("%s/%u", small_graph_kinds[kind], seed);
  self->batch = (gint64) 512 << pick (&making, 3);
  self->outputs = g_strsplit ("y", ",", 0);
  return self;
}

/* ---- Pieces of models ---- */

#define PIECE_BATCH 16
#define PIECE_LENGTH 32

static OrtrainGraph *
load_static_graph (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_assert_no_error (error);
  const guint n = graph->inputs->len;
  g_autofree OrtrainSpecializeInput *inputs = g_new0 (OrtrainSpecializeInput, n + 1);
  g_autofree gint64 *dims = g_new0 (gint64, (gsize) n * ORTRAIN_MAX_RANK + 1);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      gint64 *of_input = dims + (gsize) i * ORTRAIN_MAX_RANK;
      inputs[i] = (OrtrainSpecializeInput){ input->name, input->dtype, of_input, (guint) MAX (input->rank, 0), NULL };
      for (guint d = 0; d < inputs[i].rank; d++)
        of_input[d] = ortrain_dim_is_int (input->dims[d]) ? input->dims[d].value : d == 0 ? PIECE_BATCH : PIECE_LENGTH;
    }
  OrtrainGraph *specialized = ortrain_specialize (graph, inputs, n, &error);
  g_assert_no_error (error);
  return specialized;
}

static gboolean
is_of_piece (GHashTable *piece, const OrtrainNode *node)
{
  return node != NULL && g_hash_table_contains (piece, node);
}

/* Floating-point results, and no graphs within. */
static gboolean
may_be_of_piece (const OrtrainNode *node)
{
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && (output->dtype != ORTRAIN_DTYPE_FLOAT32 || output->rank < 1))
        return FALSE;
    }
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      if (input != NULL && input->tensor == NULL && input->producer == NULL && input->dtype != ORTRAIN_DTYPE_FLOAT32)
        return FALSE;
    }
  return node->op != NULL && node->body == NULL && !ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL);
}

static OrtrainValue *
copy_input (OrtrainGraph *graph, const OrtrainValue *value)
{
  OrtrainValue *same = ortrain_graph_find_value (graph, value->name);
  if (same != NULL)
    return same;
  if (value->tensor != NULL)
    return ortrain_graph_new_initializer (graph, value->name, value->tensor);
  return ortrain_graph_new_input (graph, value->name, value->dtype, value->dims, (guint) value->rank);
}

/* Its nodes in their order; those of its results that none of them reads are outputs. */
static OrtrainGraph *
copy_piece (OrtrainGraph *from, GHashTable *piece, GPtrArray *outputs)
{
  OrtrainGraph *graph = ortrain_graph_new ("piece");
  graph->opset = from->opset;
  for (guint t = 0; t < from->nodes->len; t++)
    {
      const OrtrainNode *node = from->nodes->pdata[t];
      if (!is_of_piece (piece, node))
        continue;
      g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, node->inputs->len + 1);
      for (guint i = 0; i < node->inputs->len; i++)
        inputs[i] = node->inputs->pdata[i] != NULL ? copy_input (graph, node->inputs->pdata[i]) : NULL;
      OrtrainNode *copy = ortrain_graph_new_node (graph, node->domain, node->op_type, node->name, inputs,
                                                  node->inputs->len, node->outputs->len);
      ortrain_attributes_assign (copy->attributes, node->attributes);
      for (guint k = 0; k < node->outputs->len; k++)
        {
          const OrtrainValue *output = node->outputs->pdata[k];
          if (output == NULL)
            {
              ortrain_node_drop_output (copy, k);
              continue;
            }
          ortrain_value_rename (copy->outputs->pdata[k], output->name);
          gboolean is_read = FALSE;
          for (guint u = 0; u < output->uses.n; u++)
            is_read = is_read || is_of_piece (piece, output->uses.items[u].node);
          if (!is_read)
            {
              ortrain_graph_mark_output (graph, copy->outputs->pdata[k], TRUE);
              g_ptr_array_add (outputs, g_strdup (output->name));
            }
        }
    }
  return graph;
}

SmallGraph *
small_graph_new_piece (const char *path, const char *name, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  g_autoptr (OrtrainGraph) graph = load_static_graph (path);
  g_autoptr (GHashTable) piece = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) outputs = g_ptr_array_new_with_free_func (g_free);
  const guint n_nodes = graph->nodes->len;
  const guint wanted = (guint) g_rand_int_range (rand, 3, 12);
  for (guint t = (guint) g_rand_int_range (rand, 0, (gint32) n_nodes); t < n_nodes; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      gboolean follows = g_hash_table_size (piece) == 0;
      for (guint i = 0; i < node->inputs->len; i++)
        follows = follows || (node->inputs->pdata[i] != NULL &&
                              is_of_piece (piece, ((OrtrainValue *) node->inputs->pdata[i])->producer));
      if (follows && g_hash_table_size (piece) < wanted && may_be_of_piece (node))
        g_hash_table_add (piece, (gpointer) node);
    }
  if (g_hash_table_size (piece) < 3)
    return NULL;
  g_autoptr (OrtrainGraph) part = copy_piece (graph, piece, outputs);
  g_autoptr (GBytes) bytes = ortrain_graph_write (part, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  if (model == NULL || outputs->len > 2)
    return NULL;
  SmallGraph *self = g_new0 (SmallGraph, 1);
  self->name = g_strdup_printf ("%s/%u", name, seed);
  self->model = g_steal_pointer (&model);
  self->batch = PIECE_BATCH;
  g_ptr_array_add (outputs, NULL);
  self->outputs = (GStrv) g_ptr_array_free (g_steal_pointer (&outputs), FALSE);
  return self;
}

/* ---- */

SmallGraph *
small_graph_new (const char *name)
{
  const char *slash = strchr (name, '/');
  const char *folders = g_getenv ("G_TEST_SRCDIR");
  if (slash == NULL)
    return NULL;
  const guint32 seed = (guint32) g_ascii_strtoull (slash + 1, NULL, 10);
  g_autofree char *kind = g_strndup (name, (gsize) (slash - name));
  if (g_strv_contains (small_graph_kinds, kind))
    return small_graph_new_random (seed);
  g_autofree char *path =
      g_build_filename (folders != NULL ? folders : "tests", "data", "fixtures", kind, "model.onnx", NULL);
  return g_file_test (path, G_FILE_TEST_EXISTS) ? small_graph_new_piece (path, kind, seed) : NULL;
}

void
small_graph_free (SmallGraph *self)
{
  g_free (self->name);
  g_object_unref (self->model);
  g_strfreev (self->outputs);
  g_free (self);
}
