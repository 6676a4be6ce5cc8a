/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-check-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>

/* Checks of every node before its row's own functions see it, and of their results. A node is checked each time its
 * shapes are inferred: when a graph is created from a file and ranks may be unknown, when a gradient rule writes it,
 * and again when a plan is created and all shapes are numbers. */

/* ---- Attributes ---- */

/* ONNX gives attributes of one name one meaning in all operators and versions, but for the few with two kinds. Bounds
 * are for integers, for each element of a list of them, and for finite floats; where an operator allows less, its row
 * says so in its `infer`. */
typedef struct
{
  const char *name;
  guint32 kinds;   /* bit k: kind k is possible */
  gint64 min, max; /* no bounds where both are 0 */
  guint max_n;     /* elements of a list; 0: any number */
} AttributeRule;

#define KIND(kind) (1u << ORTRAIN_ATTRIBUTE_##kind)
#define SIZE_LIMIT G_MAXINT32
#define INT(name)                                                                                                      \
  {                                                                                                                    \
    name, KIND (INT), 0, 0, 0                                                                                          \
  }
#define INT_IN(name, min, max)                                                                                         \
  {                                                                                                                    \
    name, KIND (INT), min, max, 0                                                                                      \
  }
#define COUNT(name)                                                                                                    \
  {                                                                                                                    \
    name, KIND (INT), 1, SIZE_LIMIT, 0                                                                                 \
  }
#define FLOAT(name)                                                                                                    \
  {                                                                                                                    \
    name, KIND (FLOAT), 0, 0, 0                                                                                        \
  }
#define FINITE(name, min, max)                                                                                         \
  {                                                                                                                    \
    name, KIND (FLOAT), min, max, 0                                                                                    \
  }
#define STRING(name)                                                                                                   \
  {                                                                                                                    \
    name, KIND (STRING), 0, 0, 0                                                                                       \
  }
#define LIST(name, min, max, max_n)                                                                                    \
  {                                                                                                                    \
    name, KIND (INTS), min, max, max_n                                                                                 \
  }
#define AXIS(name)                                                                                                     \
  {                                                                                                                    \
    name, KIND (INT), -ORTRAIN_MAX_RANK, ORTRAIN_MAX_RANK, 0                                                           \
  }
#define AXES(name)                                                                                                     \
  {                                                                                                                    \
    name, KIND (INTS), -ORTRAIN_MAX_RANK, ORTRAIN_MAX_RANK - 1, ORTRAIN_MAX_RANK                                       \
  }

/* clang-format off */
static const AttributeRule rules[] = {
  STRING ("activation"), { "activations", KIND (STRINGS), 0, 0, 0 },
  { "activation_alpha", KIND (FLOATS) | KIND (FLOAT), 0, 0, 0 },
  { "activation_beta", KIND (FLOATS) | KIND (FLOAT), 0, 0, 0 },
  INT ("align_corners"), INT ("allowzero"), FLOAT ("alpha"), INT ("antialias"), STRING ("approximate"),
  STRING ("auto_pad"), AXES ("axes"), AXIS ("axis"),
  AXIS ("batch_axis"), INT_IN ("batch_dims", 0, ORTRAIN_MAX_RANK), FLOAT ("beta"), FLOAT ("bias"), COUNT ("block_size"),
  COUNT ("blocksize"), { "body", KIND (GRAPH), 0, 0, 0 }, INT ("broadcast"),
  INT ("ceil_mode"), STRING ("cell"), INT ("center_point_box"), FLOAT ("clip"), LIST ("consumed_inputs", 0, 0, 0),
  STRING ("coordinate_transformation_mode"), INT ("count_include_pad"), FLOAT ("cubic_coeff_a"),
  FLOAT ("decay_factor"), INT ("detect_negative"), INT ("detect_positive"),
  LIST ("dilations", 1, SIZE_LIMIT, ORTRAIN_MAX_RANK), STRING ("direction"), INT_IN ("dtype", 0, 64),
  { "else_branch", KIND (GRAPH), 0, 0, 0 }, INT ("end"), LIST ("ends", 0, 0, ORTRAIN_MAX_RANK),
  FINITE ("epsilon", 0, G_MAXINT32), STRING ("equation"), INT ("exclude_outside"), INT ("exclusive"),
  FLOAT ("extrapolation_value"), INT ("fill"),
  INT ("fmod"), INT ("forward_node"), FLOAT ("gamma"), COUNT ("group"), INT_IN ("guard", 0, 2),
  COUNT ("hidden_size"), FLOAT ("high"), INT ("ignore_index"), INT_IN ("index", 0, SIZE_LIMIT), INT ("input_forget"),
  INT ("interleaved"), INT ("is_causal"), INT ("is_test"),
  INT ("k"), STRING ("keep_aspect_ratio_policy"), INT ("keepdims"),
  LIST ("kernel_shape", 1, SIZE_LIMIT, ORTRAIN_MAX_RANK), FLOAT ("key_scale"), INT_IN ("kv_num_heads", 0, SIZE_LIMIT),
  FINITE ("label_smoothing", 0, 1), FLOAT ("lambd"), INT ("largest"), INT_IN ("layout", 0, 1),
  INT ("left_window_size"), INT ("linear_before_reset"), FLOAT ("low"),
  FLOAT ("masked_value"), FLOAT ("max"), FLOAT ("mean"), FLOAT ("min"), STRING ("mode"), FLOAT ("momentum"),
  STRING ("nearest_mode"), INT ("noop_with_empty_axes"), STRING ("norm"), FLOAT ("norm_coefficient"), FLOAT ("norm_coefficient_post"),
  COUNT ("num_groups"), INT_IN ("num_heads", 0, SIZE_LIMIT), COUNT ("num_outputs"),
  INT ("onesided"), INT_IN ("output_datatype", 0, 64), INT_IN ("output_dtype", 0, 64),
  INT_IN ("output_height", 0, SIZE_LIMIT), LIST ("output_padding", 0, SIZE_LIMIT, ORTRAIN_MAX_RANK),
  LIST ("output_shape", -1, SIZE_LIMIT, ORTRAIN_MAX_RANK), INT_IN ("output_width", 0, SIZE_LIMIT),
  { "p", KIND (INT) | KIND (FLOAT), 1, SIZE_LIMIT, 0 }, INT_IN ("packed", 0, 63), STRING ("padding_mode"),
  LIST ("paddings", -SIZE_LIMIT, SIZE_LIMIT, 2 * ORTRAIN_MAX_RANK),
  LIST ("pads", -SIZE_LIMIT, SIZE_LIMIT, 2 * ORTRAIN_MAX_RANK), INT ("periodic"), AXES ("perm"), AXES ("permY"),
  LIST ("pooled_shape", 0, SIZE_LIMIT, ORTRAIN_MAX_RANK),
  INT_IN ("q_num_heads", 0, SIZE_LIMIT), INT ("qk_matmul_output_mode"), FLOAT ("query_scale"),
  FLOAT ("ratio"), STRING ("reduction"), INT ("reverse"), INT ("right_window_size"),
  COUNT ("rows"), INT_IN ("rotary_embedding_dim", 0, SIZE_LIMIT),
  INT_IN ("sample_size", 0, SIZE_LIMIT), INT ("sampling_ratio"), INT ("saturate"), FLOAT ("scale"),
  { "scales", KIND (FLOATS), 0, 0, ORTRAIN_MAX_RANK }, STRING ("scores"), { "seed", KIND (INT) | KIND (FLOAT), 0, 0, 0 },
  INT ("select_last_index"), LIST ("shape", -1, G_MAXINT64, ORTRAIN_MAX_RANK), COUNT ("size"), FLOAT ("softcap"),
  INT_IN ("softmax_precision", 0, 64), INT ("sorted"), INT ("spatial"), FLOAT ("spatial_scale"),
  LIST ("split", 0, G_MAXINT64, 0), INT ("start"), LIST ("starts", 0, 0, ORTRAIN_MAX_RANK), INT ("stash_type"),
  INT ("storage_order"), LIST ("strides", 1, SIZE_LIMIT, ORTRAIN_MAX_RANK),
  { "then_branch", KIND (GRAPH), 0, 0, 0 }, AXIS ("time_axis"), { "to", KIND (INT) | KIND (STRING), 0, 64, 0 },
  INT ("training_mode"), INT ("transA"), INT ("transB"), INT ("transW"), INT ("upper"),
  { "value", KIND (TENSOR) | KIND (FLOAT), 0, 0, 0 }, FLOAT ("value_float"), { "value_floats", KIND (FLOATS), 0, 0, 0 },
  INT ("value_int"), LIST ("value_ints", 0, 0, 0), STRING ("value_string"),
  { "value_strings", KIND (STRINGS), 0, 0, 0 },
};
/* clang-format on */

static const AttributeRule *
find_rule (const char *name)
{
  static gsize once;
  if (g_once_init_enter (&once))
    {
      GHashTable *by_name = g_hash_table_new (g_str_hash, g_str_equal);
      for (guint i = 0; i < G_N_ELEMENTS (rules); i++)
        g_hash_table_insert (by_name, (gpointer) rules[i].name, (gpointer) &rules[i]);
      g_once_init_leave (&once, (gsize) by_name);
    }
  return g_hash_table_lookup ((GHashTable *) once, name);
}

static gboolean fail (OrtrainNode *node, GError **error, OrtrainGraphError code, const char *format, ...)
    G_GNUC_PRINTF (4, 5);

static gboolean
fail (OrtrainNode *node, GError **error, OrtrainGraphError code, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, (gint) code, "%s: %s", text, message);
  return FALSE;
}

static const char *
name_of_kind (OrtrainAttributeKind kind)
{
  static const char *const names[] = { [ORTRAIN_ATTRIBUTE_FLOAT] = "a float",
                                       [ORTRAIN_ATTRIBUTE_INT] = "an integer",
                                       [ORTRAIN_ATTRIBUTE_STRING] = "a string",
                                       [ORTRAIN_ATTRIBUTE_TENSOR] = "a tensor",
                                       [ORTRAIN_ATTRIBUTE_GRAPH] = "a graph",
                                       [ORTRAIN_ATTRIBUTE_FLOATS] = "a list of floats",
                                       [ORTRAIN_ATTRIBUTE_INTS] = "a list of integers",
                                       [ORTRAIN_ATTRIBUTE_STRINGS] = "a list of strings",
                                       [ORTRAIN_ATTRIBUTE_TENSORS] = "a list of tensors",
                                       [ORTRAIN_ATTRIBUTE_GRAPHS] = "a list of graphs" };
  return names[kind];
}

static gboolean
check_int (OrtrainNode *node, const AttributeRule *rule, gint64 value, GError **error)
{
  if ((rule->min == 0 && rule->max == 0) || (value >= rule->min && value <= rule->max))
    return TRUE;
  return fail (node, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
               "attribute '%s' is %" G_GINT64_FORMAT ", it must be from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
               rule->name, value, rule->min, rule->max);
}

gboolean
ortrain_op_check_attributes (OrtrainNode *node, GError **error)
{
  for (guint i = 0; i < ortrain_attributes_get_n (node->attributes); i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_get_nth (node->attributes, i);
      const AttributeRule *rule = find_rule (a->name);
      if (rule == NULL)
        continue;
      if (!(rule->kinds >> a->kind & 1))
        {
          guint expected = 0;
          while (!(rule->kinds >> expected & 1))
            expected++;
          return fail (node, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute '%s' is %s, it must be %s",
                       ortrain_text_show (a->name), name_of_kind (a->kind), name_of_kind (expected));
        }
      if (a->kind == ORTRAIN_ATTRIBUTE_INT && !check_int (node, rule, a->v.i, error))
        return FALSE;
      if (a->kind == ORTRAIN_ATTRIBUTE_FLOAT && rule->max > rule->min &&
          !(a->v.f >= (double) rule->min && a->v.f <= (double) rule->max))
        return fail (node, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                     "attribute '%s' is %g, it must be from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                     ortrain_text_show (a->name), a->v.f, rule->min, rule->max);
      if (rule->max_n > 0 && a->n > rule->max_n)
        return fail (node, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                     "attribute '%s' has %" G_GSIZE_FORMAT " elements, at most %u are allowed",
                     ortrain_text_show (a->name), a->n, rule->max_n);
      for (gsize k = 0; a->kind == ORTRAIN_ATTRIBUTE_INTS && k < a->n; k++)
        if (!check_int (node, rule, a->v.ints[k], error))
          return FALSE;
    }
  return TRUE;
}

/* ---- Operands ---- */

static gboolean
is_set (guint32 mask, guint i)
{
  return i < 32 && (mask >> i & 1);
}

static const struct
{
  char letter; /* of OrtrainOpDef.types */
  OrtrainDTypeSet dtypes;
  const char *name;
} type_sets[] = {
  { 'b', ORTRAIN_DTYPES_BOOL, "bool" },
  { 'f', ORTRAIN_DTYPES_FLOAT, "a floating-point type" },
  { 's', ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32), "float32" },
  { 'i', ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64), "int32 or int64" },
  { 'l', ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64), "int64" },
  { 'n', ORTRAIN_DTYPES_NUMERIC, "a numeric type" },
  { 'q', ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8), "int8 or uint8" },
};

/* One input against its letter in OrtrainOpDef.types. */
static gboolean
check_type (OrtrainNode *node, guint i, char letter, GError **error)
{
  OrtrainValue *value = ortrain_node_input (node, i);
  g_autofree char *needed = NULL;
  if (value == NULL || value->dtype == ORTRAIN_DTYPE_UNDEFINED)
    return TRUE;
  if (g_ascii_isdigit (letter))
    {
      OrtrainValue *model = ortrain_node_input (node, (guint) (letter - '0'));
      if (model == NULL || model->dtype == ORTRAIN_DTYPE_UNDEFINED || model->dtype == value->dtype)
        return TRUE;
      needed = g_strdup_printf ("%s, the type of input %c '%s',", ortrain_dtype_get_name (model->dtype), letter,
                                ortrain_text_show (model->name));
    }
  for (guint s = 0; s < G_N_ELEMENTS (type_sets) && needed == NULL; s++)
    if (type_sets[s].letter == letter)
      {
        if (type_sets[s].dtypes & ORTRAIN_DTYPE_BIT (value->dtype))
          return TRUE;
        needed = g_strdup (type_sets[s].name);
      }
  if (needed == NULL)
    return TRUE;
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DTYPE, "%s: input %u '%s' is %s, %s is needed", text, i,
               ortrain_text_show (value->name), ortrain_dtype_get_name (value->dtype), needed);
  return FALSE;
}

/* The types of the operands: input 0 is in `dtypes`, all are as `types` says. */
static gboolean
check_types (OrtrainNode *node, GError **error)
{
  const OrtrainOpDef *op = node->op;
  const OrtrainValue *first = ortrain_node_input (node, 0);
  if (op->dtypes != 0 && first != NULL && first->dtype != ORTRAIN_DTYPE_UNDEFINED &&
      !(op->dtypes & ORTRAIN_DTYPE_BIT (first->dtype)))
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DTYPE,
                   "%s: input '%s' is %s, which the operator does not support", text, ortrain_text_show (first->name),
                   ortrain_dtype_get_name (first->dtype));
      return FALSE;
    }
  const char *letter = op->types;
  for (guint i = 0; letter != NULL && i < node->inputs->len; i++)
    {
      if (!check_type (node, i, *letter, error))
        return FALSE;
      if (letter[1] != '\0')
        letter++;
    }
  return TRUE;
}

static gboolean
check_operand (OrtrainNode *node, guint i, GError **error)
{
  const OrtrainOpDef *op = node->op;
  const OrtrainValue *value = node->inputs->pdata[i], *first = node->inputs->pdata[0];
  if (is_set (op->vector_inputs, i) && value->rank > 1)
    return fail (node, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u '%s' has rank %d, 1 is needed", i,
                 ortrain_text_show (value->name), value->rank);
  for (gint d = 0; is_set (op->scalar_inputs, i) && d < value->rank; d++)
    if (ortrain_dim_is_int (value->dims[d]) && value->dims[d].value != 1)
      {
        g_autofree char *shape = ortrain_dims_to_string (value->dims, value->rank);
        return fail (node, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u '%s' has the shape %s, one element is needed", i,
                     ortrain_text_show (value->name), shape);
      }
  if (first == NULL || i == 0)
    return TRUE;
  if (is_set (op->shaped_inputs, i) && value->rank >= 0 && first->rank >= 0)
    {
      gboolean same = value->rank == first->rank;
      for (gint d = 0; d < value->rank && same; d++)
        same = !ortrain_dim_is_int (value->dims[d]) || !ortrain_dim_is_int (first->dims[d]) ||
               value->dims[d].value == first->dims[d].value;
      if (!same)
        {
          g_autofree char *a = ortrain_dims_to_string (value->dims, value->rank);
          g_autofree char *b = ortrain_dims_to_string (first->dims, first->rank);
          return fail (node, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u '%s' is %s, but input 0 is %s", i,
                       ortrain_text_show (value->name), a, b);
        }
    }
  return TRUE;
}

gboolean
ortrain_op_check_arity (OrtrainNode *node, GError **error)
{
  const OrtrainOpDef *op = node->op;
  const gint n_inputs = (gint) node->inputs->len, n_outputs = (gint) node->outputs->len;
  const char *what = NULL;
  gint found = 0, min = 0, max = 0;
  if (n_inputs < op->min_inputs || (op->max_inputs >= 0 && n_inputs > op->max_inputs))
    what = "input", found = n_inputs, min = op->min_inputs, max = op->max_inputs;
  else if (n_outputs < op->min_outputs || (op->max_outputs >= 0 && n_outputs > op->max_outputs))
    what = "output", found = n_outputs, min = op->min_outputs, max = op->max_outputs;
  if (what == NULL)
    return TRUE;
  g_autofree char *text = ortrain_node_describe (node);
  g_autofree char *wanted = max < 0      ? g_strdup_printf ("at least %d", min)
                            : min == max ? g_strdup_printf ("%d", min)
                                         : g_strdup_printf ("%d to %d", min, max);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY, "%s has %d %s%s, it must have %s", text, found,
               what, ortrain_text_plural ((guint64) found), wanted);
  return FALSE;
}

gboolean
ortrain_op_check_present (OrtrainNode *node, gint n_inputs, GError **error)
{
  if (node->op->flags & ORTRAIN_OP_CONTROL)
    return TRUE;
  for (gint i = 0; i < n_inputs; i++)
    if (((guint) i >= node->inputs->len || node->inputs->pdata[i] == NULL) &&
        !is_set (node->op->optional_inputs, (guint) i))
      return fail (node, error, ORTRAIN_GRAPH_ERROR_ARITY, "input %d is missing", i);
  return TRUE;
}

gboolean
ortrain_op_check_node (OrtrainNode *node, GError **error)
{
  if (!ortrain_op_check_arity (node, error) || !ortrain_op_check_present (node, node->op->min_inputs, error) ||
      !ortrain_op_check_attributes (node, error) || !check_types (node, error))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL && !check_operand (node, i, error))
      return FALSE;
  return TRUE;
}

/* Memory is taken for every element of a result: sizes that are negative or exceed the address space are refused
 * here. */
gboolean
ortrain_op_check_outputs (OrtrainNode *node, GError **error)
{
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *value = node->outputs->pdata[k];
      gint64 dims[ORTRAIN_MAX_RANK], n;
      gsize bytes;
      if (value == NULL)
        continue;
      gboolean fits = TRUE;
      for (gint d = 0; d < value->rank; d++)
        fits = fits && (!ortrain_dim_is_int (value->dims[d]) || value->dims[d].value >= 0);
      if (fits && ortrain_value_get_static_dims (value, dims))
        fits = ortrain_checked_n_elements (dims, (gsize) value->rank, &n) &&
               ortrain_checked_mul ((gsize) n, MAX (ortrain_dtype_get_size (value->dtype), 1), &bytes) &&
               bytes <= G_MAXSSIZE;
      if (fits)
        continue;
      g_autofree char *shape = ortrain_dims_to_string (value->dims, value->rank);
      return fail (node, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                   "output %u '%s' would have the shape %s, which has too many elements or a negative size", k,
                   ortrain_text_show (value->name), shape);
    }
  return TRUE;
}

gboolean
ortrain_op_check_operands (OrtrainGraph *graph, OrtrainNode *node, gint n_inputs, GError **error)
{
  const OrtrainOpDef *op = node->op;
  if (!ortrain_op_check_present (node, n_inputs, error))
    return FALSE;
  for (gint k = 0; k < op->min_outputs && *op->domain == '\0' && !(op->flags & ORTRAIN_OP_CONTROL); k++)
    if (node->outputs->pdata[k] == NULL)
      ortrain_node_set_output (node, (guint) k, ortrain_graph_new_value (graph, NULL));
  return TRUE;
}
