/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-graph-builder-private.h"

#include "core/ortrain-philox-private.h"
#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

#include <math.h>

/**
 * OrtrainGraphBuilder:
 *
 * Creates a model without another program, layer by layer.
 *
 * Each call adds nodes and returns the value that they compute, for the next call. Parameters begin as those of
 * PyTorch's layers do, with random numbers that depend on [property@GraphBuilder:seed] alone. No call fails: the first
 * mistake is remembered, later calls do nothing and return %NULL, and [method@GraphBuilder.build] reports it.
 *
 * ```python
 * builder = Ortrain.GraphBuilder.new("classifier")
 * x = builder.add_input("x", Ortrain.DType.FLOAT32, "batch, 784")
 * x = builder.relu(builder.linear(x, "fc1", 128, True))
 * builder.add_output(builder.linear(x, "fc2", 10, True), "logits")
 * model = builder.build()
 * model.save("classifier.onnx")
 * ```
 *
 * ```c
 * g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("classifier");
 * OrtrainValue *x = ortrain_graph_builder_add_input (b, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 784");
 * x = ortrain_graph_builder_relu (b, ortrain_graph_builder_linear (b, x, "fc1", 128, TRUE));
 * x = ortrain_graph_builder_linear (b, x, "fc2", 10, TRUE);
 * ortrain_graph_builder_add_output (b, x, "logits");
 * g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (b, &error);
 * ```
 *
 * [ctor@GraphBuilder.new_mlp], [ctor@GraphBuilder.new_cnn], [ctor@GraphBuilder.new_gpt] and
 * [ctor@GraphBuilder.new_bert] return builders with a whole model in them. One thread at a time may use a builder.
 */
G_DEFINE_FINAL_TYPE (OrtrainGraphBuilder, ortrain_graph_builder, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_SEED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* The operator set of written files, so that older runtimes open them; operators that came later raise it. */
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
   * The seed of the random numbers of parameters that are added from now on. Default: 0.
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
 * Creates an empty builder.
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
 * Gets the seed of the random numbers of parameters that are added from now on.
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
 * Sets the seed of the random numbers of parameters that are added from now on.
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
 * Gets the graph as it is now.
 *
 * Returns: (transfer none): the graph, owned by the builder
 */
OrtrainGraph *
ortrain_graph_builder_get_graph (OrtrainGraphBuilder *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return self->graph;
}

void
ortrain_graph_builder_fail (OrtrainGraphBuilder *self, OrtrainGraphError code, const char *format, ...)
{
  va_list args;

  if (self->error != NULL)
    return;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  self->error = g_error_new_literal (ORTRAIN_GRAPH_ERROR, code, text);
}

/* ---- Inputs and parameters ---- */

static gboolean
name_is_free (OrtrainGraphBuilder *self, const char *name)
{
  if (self->error != NULL)
    return FALSE;
  if (*name == '\0' || g_hash_table_contains (self->graph->by_name, name))
    {
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_NAME,
                                  *name == '\0' ? "A value needs a name%s" : "The name '%s' is used already", name);
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
          ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE, "Input '%s' has more than %d dimensions",
                                      ortrain_text_show (name), ORTRAIN_MAX_RANK);
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
          ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
                                      "Input '%s': '%s' in its shape is neither a number nor a name",
                                      ortrain_text_show (name), ortrain_text_show (part));
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
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (tensor, &error);
  if (host == NULL)
    ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE, "Parameter '%s': %s", ortrain_text_show (name),
                                error->message);
  return host != NULL && name_is_free (self, name) ? ortrain_graph_new_initializer (self->graph, name, host) : NULL;
}

float *
ortrain_graph_builder_new_floats (OrtrainGraphBuilder *self, const char *name, const gint64 *dims, gsize n_dims,
                                  gint64 *n, OrtrainTensor **tensor)
{
  g_autoptr (GError) error = NULL;

  if (!name_is_free (self, name))
    return NULL;
  *tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, n_dims, &error);
  if (*tensor == NULL)
    {
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE, "Parameter '%s': %s", ortrain_text_show (name),
                                  error->message);
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
 * @high: the upper bound, which no element reaches
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
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  float *out = ortrain_graph_builder_new_floats (self, name, dims, n_dims, &n, &tensor);
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
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  float *out = ortrain_graph_builder_new_floats (self, name, dims, n_dims, &n, &tensor);
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
 * @element: the value of all elements
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
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  float *out = ortrain_graph_builder_new_floats (self, name, dims, n_dims, &n, &tensor);
  if (out == NULL)
    return NULL;
  for (gint64 i = 0; i < n; i++)
    out[i] = (float) element;
  return ortrain_graph_new_initializer (self->graph, name, tensor);
}

/* ---- Operators ---- */

/* Attributes, then types and shapes at once, so that the next layer knows its inputs. An operator that is not in the
 * table is let through: somebody else may run it. */
static OrtrainValue *
finish_node (OrtrainGraphBuilder *self, OrtrainNode *node, GVariant *attributes)
{
  const OrtrainOpDef *op = ortrain_ops_lookup (node->domain, node->op_type);
  for (gsize i = 0; attributes != NULL && i < g_variant_n_children (attributes); i++)
    {
      const char *key;
      g_autoptr (GVariant) value = NULL;
      g_variant_get_child (attributes, i, "{&sv}", &key, &value);
      ortrain_node_set_attribute (node, key, value);
    }
  if (op != NULL)
    {
      if (*node->domain == '\0')
        self->graph->opset = MAX (self->graph->opset, MAX (op->since, op->form_since));
      ortrain_ops_infer_node (node, &self->error);
    }
  return self->error == NULL ? ortrain_node_output (node, 0) : NULL;
}

OrtrainValue *
ortrain_graph_builder_add_node (OrtrainGraphBuilder *self, const char *op_type, const char *name,
                                OrtrainValue *const *inputs, guint n_inputs, GVariant *attributes)
{
  g_autoptr (GVariant) given = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;

  for (guint i = 0; i < n_inputs && self->error == NULL; i++)
    if (inputs[i] == NULL || inputs[i]->graph != self->graph)
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_NAME, "Input %u of %s is not a value of this graph", i,
                                  ortrain_text_show (op_type));
  if (self->error != NULL)
    return NULL;
  OrtrainNode *node = ortrain_graph_new_node (self->graph, "", op_type, name, inputs, n_inputs, 1);
  return finish_node (self, node, given);
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
  return finish_node (self, node, given);
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
  return ortrain_graph_builder_add_node (self, op_type, NULL, &x, 1, NULL);
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
  return ortrain_graph_builder_add_node (self, op_type, NULL, inputs, 2, NULL);
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

GVariant *
ortrain_graph_builder_attribute (const char *name, gint64 value)
{
  GVariantBuilder builder;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", name, g_variant_new_int64 (value));
  return g_variant_builder_end (&builder);
}

void
ortrain_graph_builder_put_ints (GVariantBuilder *builder, const char *name, const gint64 *values, gsize n)
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
  return ortrain_graph_builder_add_node (self, "Softmax", NULL, &x, 1, ortrain_graph_builder_attribute ("axis", axis));
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
  return ortrain_graph_builder_add_node (self, "Flatten", NULL, &x, 1, ortrain_graph_builder_attribute ("axis", 1));
}

OrtrainValue *
ortrain_graph_builder_ints (OrtrainGraphBuilder *self, const gint64 *values, gsize n)
{
  return self->error == NULL ? ortrain_graph_const_ints (self->graph, values, n) : NULL;
}

/**
 * ortrain_graph_builder_reshape:
 * @self: a builder
 * @x: (nullable): the input
 * @dims: (array length=n_dims): the new dimensions; 0 keeps the one of the input, -1 is the rest
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
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  return ortrain_graph_builder_binary (self, "Reshape", x, ortrain_graph_builder_ints (self, dims, n_dims));
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
  g_return_val_if_fail (permutation != NULL || n_dims == 0, NULL);
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  ortrain_graph_builder_put_ints (&builder, "perm", permutation, n_dims);
  return ortrain_graph_builder_add_node (self, "Transpose", NULL, &x, 1, g_variant_builder_end (&builder));
}

/* ---- Outputs ---- */

/**
 * ortrain_graph_builder_add_output:
 * @self: a builder
 * @value: (nullable): a value
 * @name: (nullable): the name of the output; %NULL to keep the one of @value
 *
 * Adds an output of the model: a value that runs compute and return.
 */
void
ortrain_graph_builder_add_output (OrtrainGraphBuilder *self, OrtrainValue *value, const char *name)
{
  g_return_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self));
  if (self->error != NULL)
    return;
  if (value == NULL || value->graph != self->graph || value->kind != ORTRAIN_VALUE_COMPUTED || value->is_output)
    {
      ortrain_graph_builder_fail (
          self, ORTRAIN_GRAPH_ERROR_NAME,
          "Value '%s' cannot be an output: it is not computed in this graph, or is an output already",
          ortrain_text_show (name));
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
 * Creates the model: an ONNX file in memory, which can be trained, saved, and opened by others. The builder may be used
 * further.
 *
 * Errors are those of [error@GraphError] and [error@ModelError]: the first mistake of all calls so far.
 *
 * Returns: (transfer full): the model; %NULL on error
 */
OrtrainModel *
ortrain_graph_builder_build (OrtrainGraphBuilder *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (self->error == NULL && self->graph->outputs->len == 0)
    {
      g_set_error_literal (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME,
                           "The model has no output; call add_output");
      return NULL;
    }
  if (self->error != NULL)
    {
      g_propagate_error (error, g_error_copy (self->error));
      return NULL;
    }
  return ortrain_model_new_from_graph (self->graph, error);
}
