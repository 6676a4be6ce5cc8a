/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-graph-builder.h"

#include "core/ortrain-philox-private.h"
#include "graph/ortrain-graph-private.h"
#include "ops/ortrain-op-private.h"

#include <math.h>
#include <string.h>

/**
 * OrtrainGraphBuilder:
 *
 * Makes a model, layer by layer, without another program.
 *
 * Each call adds nodes and gives back the value that they compute, to be used in the next call. Parameters start as
 * PyTorch's layers start, with random numbers that depend on [property@GraphBuilder:seed] alone. Nothing fails on the
 * way: the first mistake is remembered, later calls do nothing, and [method@GraphBuilder.build] reports it.
 *
 * ```c
 * g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("classifier");
 * OrtrainValue *x = ortrain_graph_builder_add_input (b, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 784");
 * x = ortrain_graph_builder_relu (b, ortrain_graph_builder_linear (b, x, "fc1", 128, TRUE));
 * ortrain_graph_builder_add_output (b, ortrain_graph_builder_linear (b, x, "fc2", 10, TRUE), "logits");
 * g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (b, &error);
 * ```
 *
 * One thread at a time.
 */
struct _OrtrainGraphBuilder
{
  GObject parent_instance;

  OrtrainGraph *graph;
  guint64 seed;
  guint32 n_random; /* each parameter draws from a stream of its own */
  GError *error;    /* the first one */
};

G_DEFINE_FINAL_TYPE (OrtrainGraphBuilder, ortrain_graph_builder, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_SEED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* What files are written for, so that runtimes of some age open them; operators that came later raise it. */
#define BASE_OPSET 20

static void
ortrain_graph_builder_finalize (GObject *object)
{
  OrtrainGraphBuilder *self = ORTRAIN_GRAPH_BUILDER (object);

  g_clear_object (&self->graph);
  g_clear_error (&self->error);
  G_OBJECT_CLASS (ortrain_graph_builder_parent_class)->finalize (object);
}

static void
ortrain_graph_builder_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_SEED:
      g_value_set_uint64 (value, ortrain_graph_builder_get_seed (ORTRAIN_GRAPH_BUILDER (object)));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_graph_builder_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_SEED:
      ortrain_graph_builder_set_seed (ORTRAIN_GRAPH_BUILDER (object), g_value_get_uint64 (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_graph_builder_class_init (OrtrainGraphBuilderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_graph_builder_finalize;
  object_class->get_property = ortrain_graph_builder_get_property;
  object_class->set_property = ortrain_graph_builder_set_property;

  /**
   * OrtrainGraphBuilder:seed: (getter get_seed) (setter set_seed)
   *
   * What random parameters depend on. Set it before they are added.
   */
  properties[PROP_SEED] = g_param_spec_uint64 ("seed", NULL, NULL, 0, G_MAXUINT64, 0,
                                               G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_graph_builder_init (OrtrainGraphBuilder *self)
{
  self->graph = ortrain_graph_new ("graph");
  self->graph->opset = BASE_OPSET;
}

/**
 * ortrain_graph_builder_new:
 * @name: (nullable): a name for the graph
 *
 * Makes a builder with nothing in it.
 *
 * Returns: (transfer full): the builder
 */
OrtrainGraphBuilder *
ortrain_graph_builder_new (const char *name)
{
  OrtrainGraphBuilder *self = g_object_new (ORTRAIN_TYPE_GRAPH_BUILDER, NULL);
  if (name != NULL && *name != '\0')
    {
      g_free (self->graph->name);
      self->graph->name = g_strdup (name);
    }
  return self;
}

/**
 * ortrain_graph_builder_get_seed: (get-property seed)
 * @self: a builder
 *
 * What random parameters depend on.
 *
 * Returns: the seed
 */
guint64
ortrain_graph_builder_get_seed (OrtrainGraphBuilder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), 0);
  return self->seed;
}

/**
 * ortrain_graph_builder_set_seed: (set-property seed)
 * @self: a builder
 * @seed: the seed
 *
 * Sets what random parameters depend on, for those that are added from now on.
 */
void
ortrain_graph_builder_set_seed (OrtrainGraphBuilder *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self));
  if (self->seed == seed)
    return;
  self->seed = seed;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SEED]);
}

/**
 * ortrain_graph_builder_get_graph:
 * @self: a builder
 *
 * The graph as it is now.
 *
 * Returns: (transfer none): the graph
 */
OrtrainGraph *
ortrain_graph_builder_get_graph (OrtrainGraphBuilder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return self->graph;
}

static void fail (OrtrainGraphBuilder *self, OrtrainGraphError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

static void
fail (OrtrainGraphBuilder *self, OrtrainGraphError code, const char *format, ...)
{
  va_list args;

  if (self->error != NULL)
    return;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  self->error = g_error_new_literal (ORTRAIN_GRAPH_ERROR, code, text);
}

/* ---- What goes in ---- */

static gboolean
name_is_free (OrtrainGraphBuilder *self, const char *name)
{
  if (self->error != NULL)
    return FALSE;
  if (*name == '\0' || g_hash_table_contains (self->graph->by_name, name))
    {
      fail (self, ORTRAIN_GRAPH_ERROR_NAME, *name == '\0' ? "a value has no name%s" : "the name “%s” is taken", name);
      return FALSE;
    }
  return TRUE;
}

/**
 * ortrain_graph_builder_add_input:
 * @self: a builder
 * @name: its name
 * @dtype: the element type
 * @shape: its dimensions, separated by commas: numbers, names of dimensions that are not known yet, or `?`
 *
 * Adds an input, such as `"image"` of shape `"batch, 1, 28, 28"`.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainValue *
ortrain_graph_builder_add_input (OrtrainGraphBuilder *self, const char *name, OrtrainDType dtype, const char *shape)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gint rank = 0;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL && shape != NULL, NULL);
  if (!name_is_free (self, name))
    return NULL;
  g_auto (GStrv) parts = g_strsplit_set (shape, ",[]", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    {
      const char *part = g_strstrip (parts[i]);
      guint64 number;
      if (*part == '\0')
        continue;
      if (rank == ORTRAIN_MAX_RANK)
        {
          fail (self, ORTRAIN_GRAPH_ERROR_SHAPE, "input “%s” has more than %d dimensions", name, ORTRAIN_MAX_RANK);
          return NULL;
        }
      if (g_ascii_string_to_unsigned (part, 10, 0, G_GINT64_CONSTANT (1) << 48, &number, NULL))
        dims[rank++] = ortrain_dim_int ((gint64) number);
      else if (g_str_equal (part, "?"))
        dims[rank++] = ortrain_dim_unknown (self->graph->dims);
      else if (g_ascii_isalpha (*part) || *part == '_')
        dims[rank++] = ortrain_dim_symbol (self->graph->dims, part);
      else
        {
          fail (self, ORTRAIN_GRAPH_ERROR_SHAPE, "“%s” in the shape of input “%s” is neither a number nor a name", part,
                name);
          return NULL;
        }
    }
  return ortrain_graph_new_input (self->graph, name, dtype, dims, rank);
}

/**
 * ortrain_graph_builder_add_tensor:
 * @self: a builder
 * @name: its name
 * @tensor: its contents
 *
 * Adds an initializer with given contents: a parameter or a constant.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainValue *
ortrain_graph_builder_add_tensor (OrtrainGraphBuilder *self, const char *name, OrtrainTensor *tensor)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (tensor), NULL);
  return name_is_free (self, name) ? ortrain_graph_new_initializer (self->graph, name, tensor) : NULL;
}

static float *
new_floats (OrtrainGraphBuilder *self, const char *name, const gint64 *dims, gsize n_dims, gint64 *n,
            OrtrainTensor **tensor)
{
  g_autoptr (GError) error = NULL;

  if (!name_is_free (self, name))
    return NULL;
  *tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, n_dims, &error);
  if (*tensor == NULL)
    {
      fail (self, ORTRAIN_GRAPH_ERROR_SHAPE, "parameter “%s”: %s", name, error->message);
      return NULL;
    }
  *n = ortrain_tensor_get_n_elements (*tensor);
  return ortrain_tensor_peek_writable (*tensor);
}

/* Four random words for elements 4·block to 4·block+3 of the newest parameter. */
static void
draw (OrtrainGraphBuilder *self, gint64 block, guint32 words[4])
{
  OrtrainPhiloxKey key = { self->seed, 0x6275696cu, self->n_random };
  ortrain_philox (&key, (guint64) block, words);
}

/**
 * ortrain_graph_builder_add_uniform:
 * @self: a builder
 * @name: its name
 * @dims: (array length=n_dims): its dimensions
 * @n_dims: their number
 * @low: the smallest element
 * @high: what all elements are below
 *
 * Adds a parameter of float32 with random elements, all between two numbers equally probable.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainValue *
ortrain_graph_builder_add_uniform (OrtrainGraphBuilder *self, const char *name, const gint64 *dims, gsize n_dims,
                                   double low, double high)
{
  g_autoptr (OrtrainTensor) tensor = NULL;
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  float *out = new_floats (self, name, dims, n_dims, &n, &tensor);
  if (out == NULL)
    return NULL;
  for (gint64 i = 0; i < n; i += 4)
    {
      guint32 words[4];
      draw (self, i / 4, words);
      for (gint64 k = 0; k < MIN (4, n - i); k++)
        out[i + k] = (float) (low + (high - low) * ortrain_philox_to_float (words[k]));
    }
  self->n_random++;
  return ortrain_graph_new_initializer (self->graph, name, tensor);
}

/**
 * ortrain_graph_builder_add_normal:
 * @self: a builder
 * @name: its name
 * @dims: (array length=n_dims): its dimensions
 * @n_dims: their number
 * @mean: the mean of the elements
 * @deviation: their standard deviation
 *
 * Adds a parameter of float32 with normally distributed random elements.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainValue *
ortrain_graph_builder_add_normal (OrtrainGraphBuilder *self, const char *name, const gint64 *dims, gsize n_dims,
                                  double mean, double deviation)
{
  g_autoptr (OrtrainTensor) tensor = NULL;
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  float *out = new_floats (self, name, dims, n_dims, &n, &tensor);
  if (out == NULL)
    return NULL;
  for (gint64 i = 0; i < n; i += 4)
    {
      guint32 words[4];
      draw (self, i / 4, words);
      for (gint64 k = 0; k < MIN (4, n - i); k += 2)
        {
          /* Box and Muller: two normal numbers out of two uniform ones */
          double radius = sqrt (-2.0 * log (((double) words[k] + 1.0) * 0x1p-32));
          double angle = 2.0 * G_PI * words[k + 1] * 0x1p-32;
          out[i + k] = (float) (mean + deviation * radius * cos (angle));
          if (i + k + 1 < n)
            out[i + k + 1] = (float) (mean + deviation * radius * sin (angle));
        }
    }
  self->n_random++;
  return ortrain_graph_new_initializer (self->graph, name, tensor);
}

/**
 * ortrain_graph_builder_add_filled:
 * @self: a builder
 * @name: its name
 * @dims: (array length=n_dims): its dimensions
 * @n_dims: their number
 * @element: what all elements are
 *
 * Adds a parameter of float32 whose elements are all alike.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainValue *
ortrain_graph_builder_add_filled (OrtrainGraphBuilder *self, const char *name, const gint64 *dims, gsize n_dims,
                                  double element)
{
  g_autoptr (OrtrainTensor) tensor = NULL;
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  float *out = new_floats (self, name, dims, n_dims, &n, &tensor);
  if (out == NULL)
    return NULL;
  for (gint64 i = 0; i < n; i++)
    out[i] = (float) element;
  return ortrain_graph_new_initializer (self->graph, name, tensor);
}

/* ---- Operators ---- */

/* Types and shapes at once, so that the next layer knows its inputs. An operator that is not in the table is let
 * through: somebody else may run it. */
static void
finish_node (OrtrainGraphBuilder *self, OrtrainNode *node)
{
  const OrtrainOpDef *op = ortrain_ops_lookup (node->domain, node->op_type);

  if (op == NULL)
    return;
  if (*node->domain == '\0' && op->since > self->graph->opset)
    self->graph->opset = op->since;
  ortrain_ops_infer_node (node, &self->error);
}

static OrtrainValue *
add_node (OrtrainGraphBuilder *self, const char *op_type, const char *name, OrtrainValue *const *inputs, guint n_inputs,
          GVariant *attributes)
{
  g_autoptr (GVariant) given = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;

  for (guint i = 0; i < n_inputs && self->error == NULL; i++)
    if (inputs[i] == NULL || inputs[i]->graph != self->graph)
      fail (self, ORTRAIN_GRAPH_ERROR_NAME, "input %u of %s is not a value of this graph", i, op_type);
  if (self->error != NULL)
    return NULL;
  OrtrainNode *node = ortrain_graph_new_node (self->graph, "", op_type, name, inputs, n_inputs, 1);
  for (gsize i = 0; given != NULL && i < g_variant_n_children (given); i++)
    {
      const char *key;
      g_autoptr (GVariant) value = NULL;
      g_variant_get_child (given, i, "{&sv}", &key, &value);
      ortrain_node_set_attribute (node, key, value);
    }
  finish_node (self, node);
  return self->error == NULL ? ortrain_node_output (node, 0) : NULL;
}

/**
 * ortrain_graph_builder_add_op:
 * @self: a builder
 * @op_type: the operator, in the form that it has in the newest operator set
 * @domain: (nullable): its domain; %NULL for ONNX's own
 * @inputs: (array zero-terminated=1): names of values; empty for an optional input that is left out
 * @outputs: (array zero-terminated=1): names for its outputs; empty for one that is not wanted
 * @attributes: (nullable): a dictionary (`a{sv}`) of its attributes: `x`, `d`, `s`, `ax`, `ad` or `as`
 *
 * Adds a node with any operator. A floating @attributes is consumed.
 *
 * Returns: (transfer none) (nullable): the first output; the others are found by their names, in
 *   [method@GraphBuilder.get_graph]
 */
OrtrainValue *
ortrain_graph_builder_add_op (OrtrainGraphBuilder *self, const char *op_type, const char *domain,
                              const char *const *inputs, const char *const *outputs, GVariant *attributes)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (op_type != NULL && inputs != NULL && outputs != NULL, NULL);
  g_return_val_if_fail (attributes == NULL || g_variant_is_of_type (attributes, G_VARIANT_TYPE_VARDICT), NULL);
  g_autoptr (GVariant) given = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;

  if (self->error != NULL)
    return NULL;
  OrtrainNode *node =
      ortrain_graph_add_node (self->graph, op_type, domain != NULL ? domain : "", NULL, inputs, outputs, &self->error);
  if (node == NULL)
    return NULL;
  for (gsize i = 0; given != NULL && i < g_variant_n_children (given); i++)
    {
      const char *key;
      g_autoptr (GVariant) value = NULL;
      g_variant_get_child (given, i, "{&sv}", &key, &value);
      ortrain_node_set_attribute (node, key, value);
    }
  finish_node (self, node);
  return self->error == NULL ? ortrain_node_output (node, 0) : NULL;
}

/**
 * ortrain_graph_builder_unary:
 * @self: a builder
 * @op_type: an operator of ONNX with one input, such as `Tanh`
 * @x: (nullable): its input
 *
 * Adds an operator with one input and no attributes.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_unary (OrtrainGraphBuilder *self, const char *op_type, OrtrainValue *x)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (op_type != NULL, NULL);
  return add_node (self, op_type, NULL, &x, 1, NULL);
}

/**
 * ortrain_graph_builder_binary:
 * @self: a builder
 * @op_type: an operator of ONNX with two inputs, such as `Mul` or `MatMul`
 * @a: (nullable): its first input
 * @b: (nullable): its second input
 *
 * Adds an operator with two inputs and no attributes.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_binary (OrtrainGraphBuilder *self, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (op_type != NULL, NULL);
  return add_node (self, op_type, NULL, inputs, 2, NULL);
}

/**
 * ortrain_graph_builder_relu:
 * @self: a builder
 * @x: (nullable): the input
 *
 * Adds max (x, 0).
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_relu (OrtrainGraphBuilder *self, OrtrainValue *x)
{
  return ortrain_graph_builder_unary (self, "Relu", x);
}

/**
 * ortrain_graph_builder_gelu:
 * @self: a builder
 * @x: (nullable): the input
 *
 * Adds the Gaussian error linear unit, in its exact form.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_gelu (OrtrainGraphBuilder *self, OrtrainValue *x)
{
  return ortrain_graph_builder_unary (self, "Gelu", x);
}

/**
 * ortrain_graph_builder_add:
 * @self: a builder
 * @a: (nullable): the first input
 * @b: (nullable): the second input
 *
 * Adds an addition, with broadcasting.
 *
 * Returns: (transfer none) (nullable): the sum
 */
OrtrainValue *
ortrain_graph_builder_add (OrtrainGraphBuilder *self, OrtrainValue *a, OrtrainValue *b)
{
  return ortrain_graph_builder_binary (self, "Add", a, b);
}

static GVariant *
attribute_int (const char *name, gint64 value)
{
  GVariantBuilder builder;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", name, g_variant_new_int64 (value));
  return g_variant_builder_end (&builder);
}

static void
put_ints (GVariantBuilder *builder, const char *name, const gint64 *values, gsize n)
{
  g_variant_builder_add (builder, "{sv}", name,
                         g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, values, n, sizeof *values));
}

/**
 * ortrain_graph_builder_softmax:
 * @self: a builder
 * @x: (nullable): the input
 * @axis: along which axis; negative ones count from the last
 *
 * Adds a softmax.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_softmax (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 axis)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return add_node (self, "Softmax", NULL, &x, 1, attribute_int ("axis", axis));
}

/**
 * ortrain_graph_builder_flatten:
 * @self: a builder
 * @x: (nullable): the input
 *
 * Joins all dimensions but the first.
 *
 * Returns: (transfer none) (nullable): the output, of two dimensions
 */
OrtrainValue *
ortrain_graph_builder_flatten (OrtrainGraphBuilder *self, OrtrainValue *x)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return add_node (self, "Flatten", NULL, &x, 1, attribute_int ("axis", 1));
}

static OrtrainValue *
ints (OrtrainGraphBuilder *self, const gint64 *values, gsize n)
{
  return self->error == NULL ? ortrain_graph_const_ints (self->graph, values, n) : NULL;
}

/**
 * ortrain_graph_builder_reshape:
 * @self: a builder
 * @x: (nullable): the input
 * @dims: (array length=n_dims): the new dimensions; 0 keeps the one of the input, -1 is what remains
 * @n_dims: their number
 *
 * Adds a change of shape.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_reshape (OrtrainGraphBuilder *self, OrtrainValue *x, const gint64 *dims, gsize n_dims)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return ortrain_graph_builder_binary (self, "Reshape", x, ints (self, dims, n_dims));
}

/**
 * ortrain_graph_builder_transpose:
 * @self: a builder
 * @x: (nullable): the input
 * @permutation: (array length=n_dims): which dimension of the input each dimension of the output is
 * @n_dims: their number
 *
 * Adds a change of the order of dimensions.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_transpose (OrtrainGraphBuilder *self, OrtrainValue *x, const gint64 *permutation, gsize n_dims)
{
  GVariantBuilder builder;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  put_ints (&builder, "perm", permutation, n_dims);
  return add_node (self, "Transpose", NULL, &x, 1, g_variant_builder_end (&builder));
}

/* ---- Layers ---- */

/* The size of a dimension that a layer's parameters depend on. */
static gboolean
known_dim (OrtrainGraphBuilder *self, const char *layer, OrtrainValue *x, gint axis, gint min_rank, gint64 *size)
{
  if (self->error != NULL)
    return FALSE;
  if (x == NULL || x->graph != self->graph)
    {
      fail (self, ORTRAIN_GRAPH_ERROR_NAME, "the input of layer “%s” is not a value of this graph", layer);
      return FALSE;
    }
  gint at = axis < 0 ? x->rank + axis : axis;
  if (x->rank < min_rank || at < 0 || at >= x->rank || !ortrain_dim_is_int (x->dims[at]))
    {
      g_autofree char *what = ortrain_value_describe (x);
      fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
            "layer “%s” needs at least %d dimensions, and a number for dimension %d, of its input; it is %s", layer,
            min_rank, axis, what);
      return FALSE;
    }
  *size = x->dims[at].value;
  return TRUE;
}

static OrtrainValue *
parameter (OrtrainGraphBuilder *self, const char *layer, const char *what, const gint64 *dims, gsize n_dims,
           gint64 fan_in)
{
  g_autofree char *name = g_strconcat (layer, ".", what, NULL);
  double bound = 1.0 / sqrt ((double) MAX (fan_in, 1));
  return ortrain_graph_builder_add_uniform (self, name, dims, n_dims, -bound, bound);
}

static OrtrainValue *
filled (OrtrainGraphBuilder *self, const char *layer, const char *what, gint64 n, double element)
{
  g_autofree char *name = g_strconcat (layer, ".", what, NULL);
  return ortrain_graph_builder_add_filled (self, name, &n, 1, element);
}

/**
 * ortrain_graph_builder_linear:
 * @self: a builder
 * @x: (nullable): the input
 * @name: a name for the layer: its parameters are NAME.weight and NAME.bias
 * @n_features: how many features come out
 * @bias: whether there is a bias
 *
 * Adds a linear layer over the last dimension.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_linear (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name, gint64 n_features,
                              gboolean bias)
{
  gint64 n_in;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, -1, 1, &n_in))
    return NULL;
  if (x->rank == 2)
    {
      gint64 dims[] = { n_features, n_in };
      OrtrainValue *inputs[] = { x, parameter (self, name, "weight", dims, 2, n_in),
                                 bias ? parameter (self, name, "bias", dims, 1, n_in) : NULL };
      return add_node (self, "Gemm", name, inputs, bias ? 3 : 2, attribute_int ("transB", 1));
    }
  gint64 dims[] = { n_in, n_features };
  OrtrainValue *inputs[] = { x, parameter (self, name, "weight", dims, 2, n_in) };
  OrtrainValue *product = add_node (self, "MatMul", name, inputs, 2, NULL);
  return bias ? ortrain_graph_builder_add (self, product, parameter (self, name, "bias", &n_features, 1, n_in))
              : product;
}

/**
 * ortrain_graph_builder_conv:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and one to three dimensions in space
 * @name: a name for the layer: its parameters are NAME.weight and NAME.bias
 * @n_channels: how many channels come out
 * @kernel: the size of the kernel, in each dimension
 * @stride: the step, in each dimension
 * @padding: how many zeros are put at each end of each dimension
 * @groups: in how many groups the channels are cut; 1 for an ordinary convolution
 * @bias: whether there is a bias; before a batch normalisation it serves nothing
 *
 * Adds a convolution.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_conv (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name, gint64 n_channels,
                            gint64 kernel, gint64 stride, gint64 padding, gint64 groups, gboolean bias)
{
  gint64 n_in, fan_in, dims[5], kernels[3], strides[3], pads[6];
  GVariantBuilder builder;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, 1, 3, &n_in))
    return NULL;
  gint n_space = x->rank - 2;
  if (n_space > 3 || kernel < 1 || stride < 1 || padding < 0 || groups < 1 || n_channels < 1 || n_in % groups != 0 ||
      n_channels % groups != 0)
    {
      fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
            "convolution “%s”: kernel %" G_GINT64_FORMAT ", stride %" G_GINT64_FORMAT ", padding %" G_GINT64_FORMAT
            ", groups %" G_GINT64_FORMAT " do not fit %" G_GINT64_FORMAT " channels in, %" G_GINT64_FORMAT " out",
            name, kernel, stride, padding, groups, n_in, n_channels);
      return NULL;
    }
  dims[0] = n_channels;
  dims[1] = fan_in = n_in / groups;
  for (gint i = 0; i < n_space; i++)
    {
      dims[2 + i] = kernels[i] = kernel;
      strides[i] = stride;
      pads[i] = pads[n_space + i] = padding;
      fan_in *= kernel;
    }
  OrtrainValue *inputs[] = { x, parameter (self, name, "weight", dims, (gsize) n_space + 2, fan_in),
                             bias ? parameter (self, name, "bias", dims, 1, fan_in) : NULL };
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  put_ints (&builder, "kernel_shape", kernels, (gsize) n_space);
  put_ints (&builder, "strides", strides, (gsize) n_space);
  put_ints (&builder, "pads", pads, (gsize) n_space * 2);
  g_variant_builder_add (&builder, "{sv}", "group", g_variant_new_int64 (groups));
  return add_node (self, "Conv", name, inputs, bias ? 3 : 2, g_variant_builder_end (&builder));
}

/**
 * ortrain_graph_builder_batch_norm:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and any others
 * @name: a name for the layer: its parameters are NAME.weight, NAME.bias, NAME.running_mean and NAME.running_var
 *
 * Adds a batch normalisation.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_batch_norm (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name)
{
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, 1, 2, &n))
    return NULL;
  OrtrainValue *inputs[] = { x, filled (self, name, "weight", n, 1.0), filled (self, name, "bias", n, 0.0),
                             filled (self, name, "running_mean", n, 0.0), filled (self, name, "running_var", n, 1.0) };
  return add_node (self, "BatchNormalization", name, inputs, 5, NULL);
}

/**
 * ortrain_graph_builder_layer_norm:
 * @self: a builder
 * @x: (nullable): the input
 * @name: a name for the layer: its parameters are NAME.weight and NAME.bias
 *
 * Adds a layer normalisation over the last dimension.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_layer_norm (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name)
{
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, -1, 1, &n))
    return NULL;
  OrtrainValue *inputs[] = { x, filled (self, name, "weight", n, 1.0), filled (self, name, "bias", n, 0.0) };
  return add_node (self, "LayerNormalization", name, inputs, 3, attribute_int ("axis", -1));
}

/**
 * ortrain_graph_builder_embedding:
 * @self: a builder
 * @ids: (nullable): integers, of any shape
 * @name: a name for the layer: its parameter is NAME.weight
 * @n_tokens: how many different integers there are
 * @width: how many numbers each one becomes
 *
 * Adds a table of vectors.
 *
 * Returns: (transfer none) (nullable): the output, of one dimension more than @ids
 */
OrtrainValue *
ortrain_graph_builder_embedding (OrtrainGraphBuilder *self, OrtrainValue *ids, const char *name, gint64 n_tokens,
                                 gint64 width)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_autofree char *weight = g_strconcat (name, ".weight", NULL);
  const gint64 dims[] = { n_tokens, width };
  OrtrainValue *inputs[] = { ortrain_graph_builder_add_normal (self, weight, dims, 2, 0.0, 1.0), ids };
  return add_node (self, "Gather", name, inputs, 2, attribute_int ("axis", 0));
}

static OrtrainValue *
pool (OrtrainGraphBuilder *self, const char *op_type, OrtrainValue *x, gint64 kernel, gint64 stride)
{
  gint64 channels, kernels[3], strides[3];
  GVariantBuilder builder;

  if (!known_dim (self, op_type, x, 1, 3, &channels))
    return NULL;
  if (x->rank > 5 || kernel < 1 || stride < 1)
    {
      fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
            "%s: kernel %" G_GINT64_FORMAT " and stride %" G_GINT64_FORMAT " of %d dimensions", op_type, kernel, stride,
            x->rank);
      return NULL;
    }
  for (gint i = 0; i < x->rank - 2; i++)
    {
      kernels[i] = kernel;
      strides[i] = stride;
    }
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  put_ints (&builder, "kernel_shape", kernels, (gsize) x->rank - 2);
  put_ints (&builder, "strides", strides, (gsize) x->rank - 2);
  return add_node (self, op_type, NULL, &x, 1, g_variant_builder_end (&builder));
}

/**
 * ortrain_graph_builder_max_pool:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and one to three dimensions in space
 * @kernel: the size of the window, in each dimension
 * @stride: the step, in each dimension
 *
 * Adds the largest element of each window.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_max_pool (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 kernel, gint64 stride)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return pool (self, "MaxPool", x, kernel, stride);
}

/**
 * ortrain_graph_builder_average_pool:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and one to three dimensions in space
 * @kernel: the size of the window, in each dimension
 * @stride: the step, in each dimension
 *
 * Adds the mean of each window.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_average_pool (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 kernel, gint64 stride)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return pool (self, "AveragePool", x, kernel, stride);
}

static OrtrainValue *
scalar (OrtrainGraphBuilder *self, double element)
{
  return self->error == NULL ? ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT32, element) : NULL;
}

/**
 * ortrain_graph_builder_dropout:
 * @self: a builder
 * @x: (nullable): the input
 * @ratio: the part of the elements that is dropped in training
 *
 * Adds a dropout.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_dropout (OrtrainGraphBuilder *self, OrtrainValue *x, double ratio)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return ortrain_graph_builder_binary (self, "Dropout", x, scalar (self, ratio));
}

/* [length] of dimension 1 of x, as int64. */
static OrtrainValue *
length_of (OrtrainGraphBuilder *self, OrtrainValue *x)
{
  GVariantBuilder builder;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "start", g_variant_new_int64 (1));
  g_variant_builder_add (&builder, "{sv}", "end", g_variant_new_int64 (2));
  return add_node (self, "Shape", NULL, &x, 1, g_variant_builder_end (&builder));
}

/* The first `length` elements along `axis`. */
static OrtrainValue *
first_along (OrtrainGraphBuilder *self, OrtrainValue *table, OrtrainValue *length, gint64 axis)
{
  const gint64 zero = 0;
  OrtrainValue *inputs[] = { table, ints (self, &zero, 1), length, ints (self, &axis, 1) };
  return add_node (self, "Slice", NULL, inputs, 4, NULL);
}

/**
 * ortrain_graph_builder_attention:
 * @self: a builder
 * @x: (nullable): the input: batch, positions, features
 * @name: a name for the layer: its parts are NAME.qkv and NAME.proj
 * @n_heads: the number of heads
 * @n_positions: the largest number of positions; used if @causal
 * @causal: whether a position only sees itself and those before it
 *
 * Adds self-attention with several heads.
 *
 * Returns: (transfer none) (nullable): the output, of the shape of @x
 */
OrtrainValue *
ortrain_graph_builder_attention (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name, gint64 n_heads,
                                 gint64 n_positions, gboolean causal)
{
  gint64 width;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, -1, 3, &width))
    return NULL;
  if (n_heads < 1 || width % n_heads != 0 || x->rank != 3 || n_positions < 1)
    {
      fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
            "attention “%s”: %" G_GINT64_FORMAT " heads for %" G_GINT64_FORMAT " features", name, n_heads, width);
      return NULL;
    }
  g_autofree char *qkv_name = g_strconcat (name, ".qkv", NULL), *proj_name = g_strconcat (name, ".proj", NULL);
  const gint64 head = width / n_heads, split[] = { 0, 0, 3, n_heads, head }, join[] = { 0, 0, width };
  static const gint64 to_heads[] = { 2, 0, 3, 1, 4 }, from_heads[] = { 0, 2, 1, 3 }, turned[] = { 0, 1, 3, 2 };
  static const gint64 which[] = { 0, 1, 2 };

  OrtrainValue *all = ortrain_graph_builder_linear (self, x, qkv_name, 3 * width, TRUE);
  all = ortrain_graph_builder_reshape (self, all, split, 5);
  all = ortrain_graph_builder_transpose (self, all, to_heads, 5); /* [3, batch, heads, positions, head] */
  OrtrainValue *parts[3];
  for (guint i = 0; i < 3; i++)
    {
      OrtrainValue *index = self->error == NULL ? ortrain_graph_const_int (self->graph, which[i]) : NULL;
      OrtrainValue *inputs[] = { all, index };
      parts[i] = add_node (self, "Gather", NULL, inputs, 2, attribute_int ("axis", 0));
    }
  parts[0] = ortrain_graph_builder_binary (self, "Mul", parts[0], scalar (self, 1.0 / sqrt ((double) head)));
  OrtrainValue *scores = ortrain_graph_builder_binary (self, "MatMul", parts[0],
                                                       ortrain_graph_builder_transpose (self, parts[1], turned, 4));
  if (causal)
    {
      /* -inf above the diagonal would make NaN of rows without any position; there are none */
      g_autoptr (OrtrainTensor) mask = NULL;
      g_autofree char *mask_name = g_strconcat (name, ".mask", NULL);
      const gint64 dims[] = { n_positions, n_positions };
      gint64 n;
      float *out = new_floats (self, mask_name, dims, 2, &n, &mask);
      for (gint64 i = 0; out != NULL && i < n; i++)
        out[i] = i % n_positions > i / n_positions ? -1e9f : 0.0f;
      OrtrainValue *table = out != NULL ? ortrain_graph_new_initializer (self->graph, mask_name, mask) : NULL;
      OrtrainValue *length = length_of (self, x);
      table = first_along (self, first_along (self, table, length, 0), length, 1);
      scores = ortrain_graph_builder_add (self, scores, table);
    }
  scores = ortrain_graph_builder_softmax (self, scores, -1);
  OrtrainValue *out = ortrain_graph_builder_binary (self, "MatMul", scores, parts[2]);
  out = ortrain_graph_builder_transpose (self, out, from_heads, 4);
  out = ortrain_graph_builder_reshape (self, out, join, 3);
  return ortrain_graph_builder_linear (self, out, proj_name, width, TRUE);
}

/* ---- What comes out ---- */

/**
 * ortrain_graph_builder_add_output:
 * @self: a builder
 * @value: (nullable): a value
 * @name: (nullable): the name of the output; %NULL to keep the one of @value
 *
 * Makes a value an output of the model.
 */
void
ortrain_graph_builder_add_output (OrtrainGraphBuilder *self, OrtrainValue *value, const char *name)
{
  g_return_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self));
  if (self->error != NULL)
    return;
  if (value == NULL || value->graph != self->graph || value->kind != ORTRAIN_VALUE_COMPUTED || value->is_output)
    {
      fail (self, ORTRAIN_GRAPH_ERROR_NAME,
            "output “%s” is not a computed value of this graph, or is an output already", name != NULL ? name : "");
      return;
    }
  if (name != NULL && !g_str_equal (name, value->name))
    {
      if (!name_is_free (self, name))
        return;
      ortrain_value_rename (value, name);
    }
  ortrain_graph_mark_output (self->graph, value, TRUE);
}

/**
 * ortrain_graph_builder_build:
 * @self: a builder
 * @error: return location for an error
 *
 * Makes the model: a real ONNX file in memory, that can be trained, saved, and opened by others. The builder may be
 * used further.
 *
 * Returns: (transfer full): the model, or %NULL with the first error that was made on the way
 */
OrtrainModel *
ortrain_graph_builder_build (OrtrainGraphBuilder *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (self->error == NULL && self->graph->outputs->len == 0)
    {
      g_set_error_literal (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "the model has no output");
      return NULL;
    }
  if (self->error != NULL)
    {
      g_propagate_error (error, g_error_copy (self->error));
      return NULL;
    }
  return ortrain_model_new_from_graph (self->graph, error);
}
