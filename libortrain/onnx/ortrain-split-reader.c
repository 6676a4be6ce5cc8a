/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parameters that an exporter merged.
 *
 * PyTorch's newer exporter, when it optimizes, stores equal tensors once. The scales of fresh normalizations, all 1,
 * and fresh biases, all 0, become one initializer under the name of one of them. The file tells them apart: the
 * metadata of the graph lists the program's parameters with their placeholders, and the metadata of a node have the
 * call that it was made from: `layer_norm_1 = call_function[…](args = (%add, [6], %p_norm2_weight, %p_norm2_bias))`.
 * Where such a node reads `norm1.weight`, it means `norm2.weight`, which gets a value of its own here.
 *
 * A program that has one parameter under two names calls it by one of them everywhere. Older versions may not have done
 * so: a table of rows that are looked up stays one, unless it has a single value.
 *
 * Nodes that the exporter made itself have no call: the module of the readers of their outputs tells which parameter of
 * that name they mean.
 *
 * It also leaves out the bias of a product or a convolution if all its elements are 0, as those of fresh layers often
 * are: the call still has it, and it is put back. */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"
#include "graph/ortrain-scoped-name-private.h"
#include "onnx/ortrain-node-metadata-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

#define MAX_BIAS ((gint64) 1 << 24)
#define LETTERS G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_"

/* ---- the program's tensors ---- */

/* "p_fc_weight: PARAMETER target='fc.weight'", a line each; or, in files of older versions, the text that Python prints
 * for its objects: "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_fc_weight'),
 * target='fc.weight')". */
void
ortrain_reader_read_placeholders (OrtrainReaderState *state)
{
  static const char mark[] = "target='", name_mark[] = "name='";
  const guint64 max_bytes = ortrain_model_limits_get_max_name_bytes (state->reader->limits);
  g_autofree char *text = ortrain_message_metadata_dup (&state->reader->proto->graph->base, ORTRAIN_GRAPH_METADATA,
                                                        ORTRAIN_METADATA_SIGNATURE, ORTRAIN_METADATA_MAX_SIGNATURE);
  for (const char *from = text, *at; from != NULL && (at = strstr (from, mark)) != NULL;)
    {
      const char *target = at + strlen (mark), *end = strchr (target, '\'');
      const char *name = g_strrstr_len (from, at - from, name_mark), *line = g_strrstr_len (from, at - from, "\n");
      if (end == NULL)
        return;
      name = name != NULL ? name + strlen (name_mark) : line != NULL ? line + 1 : from;
      const gsize n = strspn (name, LETTERS);
      if (n > 0 && end > target && (guint64) (end - target) <= max_bytes)
        {
          g_autofree char *placeholder = g_strndup (name, n), *path = g_strndup (target, (gsize) (end - target));
          char *kept = g_string_chunk_insert_const (state->strings, path);
          g_hash_table_insert (state->placeholders, g_string_chunk_insert_const (state->strings, placeholder), kept);
          g_hash_table_add (state->program_tensors, kept);
        }
      from = end + 1;
    }
}

/* The tensors of the program that a node's call has, in their order. */
static GPtrArray *
list_called (const OrtrainReaderState *state, const Ortrain__Ox__NodeProto *proto, gboolean *has_call)
{
  const guint64 max_bytes = ortrain_model_limits_get_max_name_bytes (state->reader->limits);
  g_autofree char *call = ortrain_node_metadata_dup (proto, ORTRAIN_METADATA_FX_NODE, max_bytes);
  GPtrArray *called = g_ptr_array_new ();
  *has_call = call != NULL;
  for (char *at = call; at != NULL && (at = strchr (at, '%')) != NULL;)
    {
      char *name = at + 1;
      at = name + strspn (name, LETTERS);
      const char after = *at;
      *at = '\0';
      const char *target = g_hash_table_lookup (state->placeholders, name);
      if (target != NULL)
        g_ptr_array_add (called, (gpointer) target);
      *at = after;
    }
  return called;
}

/* ---- which of them an input is ---- */

/* Whether the file has no tensor of this name, so that `merged` may be stored in its place. */
static gboolean
is_missing (const OrtrainReaderState *state, const OrtrainValue *merged, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (merged->graph, name);
  if (value == NULL)
    return TRUE;
  const OrtrainOrigin *origin = ortrain_graph_reader_find_origin (state->reader, value);
  return origin != NULL && origin->kind == ORTRAIN_ORIGIN_MERGED && g_strcmp0 (origin->of, merged->name) == 0;
}

static const char *
own_name (const char *path)
{
  const char *dot = strrchr (path, '.');
  return dot != NULL ? dot + 1 : path;
}

typedef enum
{
  KIND_OTHER,
  KIND_WEIGHT,
  KIND_BIAS,
} Kind;

static Kind
get_kind (const char *path)
{
  return g_str_has_suffix (path, "bias") ? KIND_BIAS : g_str_has_suffix (path, "weight") ? KIND_WEIGHT : KIND_OTHER;
}

/* The input is called as another tensor of the program; `called` has those of the node's call that no other input is.
 */
static const char *
choose (const OrtrainReaderState *state, const OrtrainValue *merged, const char *merged_name, const GPtrArray *called)
{
  const char *found = NULL;
  for (guint i = 0; i < called->len; i++)
    {
      const char *name = called->pdata[i];
      if (!is_missing (state, merged, name))
        continue;
      if (g_str_equal (own_name (name), own_name (merged_name)))
        return name;
      found = found == NULL && get_kind (name) == get_kind (merged_name) ? name : found;
    }
  return found;
}

static gboolean
may_be_tied (OrtrainReaderState *state, OrtrainValue *value)
{
  if (!g_hash_table_contains (state->tables, value->name))
    return FALSE;
  gpointer known = g_hash_table_lookup (state->one_valued, value);
  if (known == NULL)
    {
      known = GINT_TO_POINTER (ortrain_reader_tensor_varies (value->tensor) ? 1 : 2);
      g_hash_table_insert (state->one_valued, value, known);
    }
  return GPOINTER_TO_INT (known) == 1;
}

static void
split (OrtrainReaderState *state, OrtrainNode *node, guint input, OrtrainValue *merged, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (merged->graph, name);
  if (value == NULL)
    {
      value = ortrain_graph_new_initializer (merged->graph, name, merged->tensor);
      ortrain_reader_add_origin (state, name, ORTRAIN_ORIGIN_MERGED, merged->name);
      if (state->split_example == NULL)
        state->split_example =
            g_strdup_printf ("'%s' as '%s'", ortrain_text_show (name), ortrain_text_show (merged->name));
      state->n_split++;
    }
  ortrain_node_set_input (node, input, value);
}

/* ---- nodes without a call ---- */

/* The module that reads the outputs of the node; NULL if no module or several modules read them */
static const char *
find_reader (const OrtrainNode *node)
{
  const char *module = NULL;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *value = ortrain_node_output (node, k);
      for (guint u = 0; value != NULL && u < value->uses.n; u++)
        {
          const char *scope = ortrain_node_get_scope (value->uses.items[u].node);
          if (scope == NULL || (module != NULL && !g_str_equal (scope, module)))
            return NULL;
          module = scope;
        }
    }
  return module;
}

static void
split_uncalled (OrtrainReaderState *state, OrtrainNode *node)
{
  const char *module = find_reader (node);
  for (guint i = 0; module != NULL && i < node->inputs->len; i++)
    {
      OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL || !g_hash_table_contains (state->program_tensors, value->name))
        continue;
      g_autofree char *wanted = g_strconcat (module, ".", own_name (value->name), NULL);
      gpointer name;
      if (!g_str_equal (wanted, value->name) &&
          g_hash_table_lookup_extended (state->program_tensors, wanted, &name, NULL) &&
          is_missing (state, value, name) && !may_be_tied (state, value))
        split (state, node, i, value, name);
    }
}

/* ---- biases of zeros ---- */

/* The input that is the bias of a product or a convolution that has none; 0 if there is no such input. */
static guint
find_left_out_bias (const OrtrainNode *node)
{
  const OrtrainOpDef *row = ortrain_ops_lookup (node->domain, node->op_type);
  if (row == NULL || (row->channels != ORTRAIN_CHANNELS_PRODUCT && row->channels != ORTRAIN_CHANNELS_SECOND))
    return 0;
  for (guint i = 1; i < ORTRAIN_MAX_INPUT_ROLES; i++)
    if (g_strcmp0 (row->input_roles[i], "bias") == 0)
      return ortrain_node_input (node, i) == NULL ? i : 0;
  return 0;
}

static void
remember_bias (OrtrainReaderState *state, OrtrainNode *node, guint input, const GPtrArray *called)
{
  OrtrainLeftOutBias bias = { node, input, NULL };
  for (guint i = 0; i < called->len; i++)
    if (g_str_has_suffix (own_name (called->pdata[i]), "bias"))
      {
        if (bias.name != NULL)
          return;
        bias.name = called->pdata[i];
      }
  if (bias.name != NULL && ortrain_graph_find_value (node->graph, bias.name) == NULL)
    g_array_append_val (state->left_out_biases, bias);
}

/* How many channels the output has, as the file declares it; -1 if it does not. */
static gint64
get_declared_channels (const OrtrainNode *node)
{
  const OrtrainOpDef *row = ortrain_ops_lookup (node->domain, node->op_type);
  const OrtrainValue *y = ortrain_node_output (node, 0);
  if (y == NULL || y->rank < 2)
    return -1;
  const OrtrainDim channels = y->dims[row->channels == ORTRAIN_CHANNELS_PRODUCT ? y->rank - 1 : 1];
  return ortrain_dim_is_int (channels) ? channels.value : -1;
}

gboolean
ortrain_reader_finish_split (OrtrainReaderState *state, GError **error)
{
  for (guint i = 0; i < state->uncalled->len; i++)
    split_uncalled (state, state->uncalled->pdata[i]);
  guint n = 0;
  const char *example = NULL;
  for (guint i = 0; i < state->left_out_biases->len; i++)
    {
      const OrtrainLeftOutBias *bias = &g_array_index (state->left_out_biases, OrtrainLeftOutBias, i);
      const OrtrainValue *weight = ortrain_node_input (bias->node, 1);
      const gint64 channels = get_declared_channels (bias->node);
      OrtrainGraph *graph = bias->node->graph;
      /* another node may have brought it in: then it is not left out */
      if (channels <= 0 || channels > MAX_BIAS || weight == NULL ||
          ortrain_graph_find_value (graph, bias->name) != NULL || !ortrain_dtype_is_floating (weight->dtype))
        continue;
      g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (weight->dtype, &channels, 1, error);
      if (zeros == NULL)
        return FALSE;
      memset ((gpointer) ortrain_tensor_get_address (zeros), 0, ortrain_tensor_get_n_bytes (zeros));
      ortrain_node_set_input (bias->node, bias->input, ortrain_graph_new_initializer (graph, bias->name, zeros));
      ortrain_reader_add_origin (state, bias->name, ORTRAIN_ORIGIN_MERGED, NULL);
      example = example == NULL ? bias->name : example;
      n++;
    }
  if (state->n_split > 0)
    g_ptr_array_add (
        state->reader->notes,
        g_strdup_printf ("%u parameter%s stored as others that had equal values when the model was exported, "
                         "such as %s: each is trained on its own unless they are tied",
                         state->n_split, state->n_split == 1 ? " is" : "s are", state->split_example));
  if (n > 0)
    g_ptr_array_add (state->reader->notes, g_strdup_printf ("the exporter left out %u bias%s of the program that had "
                                                            "the value 0, such as '%s': %s trained, and written to "
                                                            "the exported file if not 0 any more",
                                                            n, n == 1 ? "" : "es", ortrain_text_show (example),
                                                            n == 1 ? "it is" : "they are"));
  return TRUE;
}

/* ---- nodes ---- */

/* Whether it was named after a tensor of the program that is not in the file, such as a scale with two more axes. */
static gboolean
is_form (const OrtrainReaderState *state, const OrtrainValue *value)
{
  const char *name = ortrain_scoped_name_of (value);
  return name != NULL && value->scoped_name != 0 && g_hash_table_contains (state->program_tensors, name) &&
         ortrain_graph_find_value (value->graph, name) == NULL;
}

static void
split_form (OrtrainReaderState *state, OrtrainNode *node, guint input, const GPtrArray *called)
{
  OrtrainValue *value = node->inputs->pdata[input];
  const char *known = ortrain_scoped_name_of (value);
  if (g_ptr_array_find_with_equal_func ((GPtrArray *) called, known, g_str_equal, NULL) || may_be_tied (state, value))
    return;
  const char *name = choose (state, value, known, called);
  if (name != NULL && g_str_equal (own_name (name), own_name (known)))
    split (state, node, input, value, name);
}

void
ortrain_reader_split_merged (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *proto, OrtrainNode *node)
{
  guint32 inputs = 0; /* those that are tensors of the program, by their names */
  guint32 forms = 0;  /* those that the exporter made of a tensor of the program */
  guint n = 0;
  for (guint i = 0; i < MIN (node->inputs->len, 32) && g_hash_table_size (state->placeholders) > 0; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER || !ortrain_dtype_is_floating (value->dtype))
        continue;
      if (!g_hash_table_contains (state->program_tensors, value->name))
        {
          forms |= is_form (state, value) ? 1u << i : 0;
          continue;
        }
      inputs |= 1u << i;
      n++;
    }
  const guint bias = find_left_out_bias (node);
  if ((inputs == 0 && forms == 0 && bias == 0) || g_hash_table_size (state->placeholders) == 0)
    return;
  gboolean has_call, is_shared = FALSE;
  g_autoptr (GPtrArray) called = list_called (state, proto, &has_call);
  if (bias > 0)
    remember_bias (state, node, bias, called);
  for (guint i = 0; !has_call && i < 32; i++)
    is_shared =
        is_shared ||
        ((inputs >> i & 1) &&
         GPOINTER_TO_UINT (g_hash_table_lookup (state->uses, ((OrtrainValue *) node->inputs->pdata[i])->name)) > 1);
  if (is_shared)
    g_ptr_array_add (state->uncalled, node);
  for (guint i = 0; i < 32; i++)
    if (forms >> i & 1)
      split_form (state, node, i, called);
  /* As many as the call has: the same order. An exporter that reorders them leaves names that do not fit. */
  gboolean in_order = called->len == n;
  for (guint i = 0, k = 0; in_order && i < 32; i++)
    if (inputs >> i & 1)
      {
        const OrtrainValue *value = node->inputs->pdata[i];
        const char *name = called->pdata[k++];
        const Kind here = get_kind (value->name), there = get_kind (name);
        in_order = g_str_equal (name, value->name) ||
                   (is_missing (state, value, name) && (here == there || here == KIND_OTHER || there == KIND_OTHER));
      }
  for (guint i = 0; !in_order && i < 32; i++)
    {
      guint at;
      if ((inputs >> i & 1) &&
          g_ptr_array_find_with_equal_func (called, ((OrtrainValue *) node->inputs->pdata[i])->name, g_str_equal, &at))
        {
          g_ptr_array_remove_index (called, at);
          inputs &= ~(1u << i);
        }
    }
  for (guint i = 0, k = 0; i < 32; i++)
    {
      if (!(inputs >> i & 1))
        continue;
      OrtrainValue *value = node->inputs->pdata[i];
      const char *name = in_order ? called->pdata[k++] : choose (state, value, value->name, called);
      if (name == NULL || g_str_equal (name, value->name) || may_be_tied (state, value))
        continue;
      /* An initializer of one node alone is not a merged one: a convolution reads its own weight, times the scale of
       * the batch normalization whose call is noted. */
      if (GPOINTER_TO_UINT (g_hash_table_lookup (state->uses, value->name)) > 1)
        split (state, node, i, value, name);
      if (!in_order)
        g_ptr_array_remove (called, (gpointer) name);
    }
}
