/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The roles of initializers in the program that the file was exported from.
 *
 * PyTorch's newer exporter lists the parameters, buffers and constants of the program in the metadata of the graph. A
 * tensor that is not in the list was computed by the exporter: from a parameter, if the module that reads it has one
 * that is missing in the file, or if it is a parameter transposed.
 *
 * In other files, names show it: modules have paths (`layer1.0.conv.weight`), exporters number the tensors that they
 * create (`val_12`, `onnx::MatMul_34`). Files without a path of a module say nothing. */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "graph/ortrain-scoped-name-private.h"
#include "onnx/ortrain-node-metadata-private.h"
#include "ops/ortrain-op-private.h"

#include <string.h>

#define PRODUCER_OF_MODULES "pytorch"
#define MAX_DEPTH 64 /* of modules in modules */
#define IDENTIFIER G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_"

/* ---- names that PyTorch gives values ---- */

/* "sqrt" of "sqrt_12" and of "sqrt" */
static char *
dup_stem (const char *name)
{
  const char *end = name + strlen (name), *digits = end;
  while (digits > name && g_ascii_isdigit (digits[-1]))
    digits--;
  const gboolean has_number = digits < end && digits > name + 1 && digits[-1] == '_';
  return g_strndup (name, has_number ? (gsize) (digits - 1 - name) : (gsize) (end - name));
}

/* Whether the value is named after an operator that computes it from no other tensor, such as the zeros of a first
 * state: it was not made from a parameter. */
static gboolean
is_made_of_nothing (const char *name)
{
  static const char *const makers[] = { "arange",   "empty",     "empty_like",    "eye",      "full",       "full_like",
                                        "linspace", "logspace",  "new_empty",     "new_full", "new_ones",   "new_zeros",
                                        "ones",     "ones_like", "scalar_tensor", "zeros",    "zeros_like", NULL };
  g_autofree char *stem = dup_stem (name);
  return g_strv_contains (makers, stem);
}

/* ---- the exporter's list ---- */

static gssize
find_last (const char *text, gsize n, const char *word)
{
  const char *at = g_strrstr_len (text, (gssize) n, word);
  return at != NULL ? at - text : -1;
}

/* "p_fc_weight: PARAMETER target='fc.weight'", a line each; or, in files of older versions, the text that Python prints
 * for its objects: "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=…, target='fc.weight', persistent=None)". Name →
 * OrtrainProvenance; NULL if no parameter is listed */
static GHashTable *
parse_signature (const char *text)
{
  static const char target[] = "target='";
  GHashTable *declared = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gboolean any = FALSE;
  for (const char *from = text, *at; (at = strstr (from, target)) != NULL;)
    {
      const char *begin = at + strlen (target), *end = strchr (begin, '\'');
      const gsize n = (gsize) (at - from);
      const gssize parameter = find_last (from, n, "PARAMETER"),
                   other = MAX (find_last (from, n, "BUFFER"), find_last (from, n, "CONSTANT"));
      if (end == NULL)
        break;
      if (parameter >= 0 || other >= 0)
        g_hash_table_insert (
            declared, g_strndup (begin, (gsize) (end - begin)),
            GINT_TO_POINTER (parameter > other ? ORTRAIN_PROVENANCE_PARAMETER : ORTRAIN_PROVENANCE_CONSTANT));
      any = any || parameter > other;
      from = end + 1;
    }
  if (!any)
    g_clear_pointer (&declared, g_hash_table_unref);
  return declared;
}

/* The listed parameters that the file lacks, and that no initializer is named after. */
typedef struct
{
  GHashTable *missing;       /* names, of `declared` */
  GHashTable *near, *around; /* modules that have one of them or whose part has; all modules around those */
} Gaps;

static void
gaps_init (Gaps *self, GHashTable *declared, OrtrainGraph *graph)
{
  GHashTableIter iter;
  gpointer name, provenance;
  self->missing = g_hash_table_new (g_str_hash, g_str_equal);
  self->near = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->around = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_hash_table_iter_init (&iter, declared);
  while (g_hash_table_iter_next (&iter, &name, &provenance))
    if (GPOINTER_TO_INT (provenance) == ORTRAIN_PROVENANCE_PARAMETER && ortrain_graph_find_value (graph, name) == NULL)
      g_hash_table_add (self->missing, name);
}

/* An initializer that is named after a missing parameter is that parameter. */
static void
gaps_close (Gaps *self, OrtrainGraph *graph)
{
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      const char *scoped = ortrain_scoped_name_of (value);
      if (value->provenance == ORTRAIN_PROVENANCE_UNKNOWN && scoped != NULL &&
          g_hash_table_contains (self->missing, scoped) && !is_made_of_nothing (value->name))
        value->provenance = ORTRAIN_PROVENANCE_FORM;
    }
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      if (value->provenance == ORTRAIN_PROVENANCE_FORM)
        g_hash_table_remove (self->missing, ortrain_scoped_name_of (value));
    }
  GHashTableIter iter;
  gpointer name;
  g_hash_table_iter_init (&iter, self->missing);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    {
      g_autofree char *module = ortrain_scoped_name_dup_module (name);
      for (guint depth = 0; module != NULL && depth < MAX_DEPTH; depth++)
        {
          g_hash_table_add (depth < 2 ? self->near : self->around, g_strdup (module));
          char *outer = ortrain_scoped_name_dup_module (module);
          g_free (module);
          module = outer;
          if (outer == NULL && depth == 0)
            g_hash_table_add (self->near, g_strdup (""));
        }
      g_hash_table_add (strchr (name, '.') == NULL ? self->near : self->around, g_strdup (""));
    }
}

static void
gaps_clear (Gaps *self)
{
  g_hash_table_unref (self->missing);
  g_hash_table_unref (self->near);
  g_hash_table_unref (self->around);
}

static gboolean
is_equal_transposed (OrtrainTensor *a, OrtrainTensor *b)
{
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (a));
  const guint8 *from = ortrain_tensor_peek_unaligned (a), *to = ortrain_tensor_peek_unaligned (b);
  gsize rank_a, rank_b;
  const gint64 *dims = ortrain_tensor_get_dims (a, &rank_a), *turned = ortrain_tensor_get_dims (b, &rank_b);
  if (rank_a != 2 || rank_b != 2 || dims[0] != turned[1] || dims[1] != turned[0] || from == NULL || to == NULL ||
      ortrain_tensor_get_dtype (a) != ortrain_tensor_get_dtype (b))
    return FALSE;
  for (gsize i = 0; i < (gsize) dims[0]; i++)
    for (gsize k = 0; k < (gsize) dims[1]; k++)
      if (memcmp (from + (i * (gsize) dims[1] + k) * size, to + (k * (gsize) dims[0] + i) * size, size) != 0)
        return FALSE;
  return TRUE;
}

/* A parameter once more, for a second module: a tied embedding. */
static gboolean
is_parameter_transposed (GHashTable *declared, OrtrainGraph *graph, const OrtrainValue *value)
{
  for (guint i = 0; value->rank == 2 && i < graph->initializers->len; i++)
    {
      const OrtrainValue *other = graph->initializers->pdata[i];
      if (other != value &&
          GPOINTER_TO_INT (g_hash_table_lookup (declared, other->name)) == ORTRAIN_PROVENANCE_PARAMETER &&
          is_equal_transposed (value->tensor, other->tensor))
        return TRUE;
    }
  return FALSE;
}

/* The possible role of an initializer that is not in the list, from the modules that read it. */
static OrtrainProvenance
find_form (const Gaps *gaps, GHashTable *declared, const OrtrainValue *value)
{
  OrtrainProvenance found = ORTRAIN_PROVENANCE_CONSTANT;
  if (is_made_of_nothing (value->name))
    return found;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const char *scope = ortrain_graph_get_label (value->graph, value->uses.items[u].node->scope);
      scope = scope != NULL ? scope : "";
      if (g_hash_table_contains (gaps->near, scope))
        return ORTRAIN_PROVENANCE_FORM;
      if (g_hash_table_contains (gaps->around, scope))
        found = ORTRAIN_PROVENANCE_MADE;
    }
  if (found == ORTRAIN_PROVENANCE_CONSTANT && is_parameter_transposed (declared, value->graph, value))
    found = ORTRAIN_PROVENANCE_FORM;
  return found;
}

static void
apply_list (GHashTable *declared, OrtrainGraph *graph)
{
  Gaps gaps;
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      value->provenance = (OrtrainProvenance) GPOINTER_TO_INT (g_hash_table_lookup (declared, value->name));
    }
  gaps_init (&gaps, declared, graph);
  gaps_close (&gaps, graph);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (value->provenance == ORTRAIN_PROVENANCE_UNKNOWN && value->enclosure == NULL &&
          ortrain_dtype_is_floating (value->dtype))
        value->provenance = find_form (&gaps, declared, value);
    }
  gaps_clear (&gaps);
}

/* ---- names ---- */

static gboolean
begins_with_number_after (const char *name, const char *prefix)
{
  return g_str_has_prefix (name, prefix) && g_ascii_isdigit (name[strlen (prefix)]);
}

static gboolean
is_numbered (const char *name)
{
  const gsize n_digits = strspn (name, G_CSET_DIGITS);
  return (n_digits > 0 && name[n_digits] == '\0') || g_str_has_prefix (name, "onnx::") || name[0] == '/' ||
         begins_with_number_after (name, "val_") || begins_with_number_after (name, "const.") ||
         begins_with_number_after (name, "const_") || strstr (name, "lifted_tensor") != NULL ||
         strstr (name, "_tensor_constant") != NULL || g_str_has_prefix (name, "_to_copy") ||
         g_str_has_prefix (name, "p2o.") || strstr (name, "onstant_") != NULL || strstr (name, "onstant.") != NULL;
}

/* Stems of the names of computed values: PyTorch numbers all values after their operators, and folds some into
 * initializers. */
static GHashTable *
find_computed_stems (OrtrainGraph *graph)
{
  GHashTable *stems = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      for (guint k = 0; k < node->outputs->len; k++)
        if (ortrain_node_output (node, k) != NULL)
          g_hash_table_add (stems, dup_stem (ortrain_node_output (node, k)->name));
    }
  return stems;
}

/* Whether PyTorch gives values such a name after an operator: one that the graph has, one of ONNX with the same name,
 * or one that is folded in any case. */
static gboolean
is_named_after_operator (const char *name, GHashTable *computed)
{
  static const char *const folded[] = { "arange", "clone", "full",          "full_like", "linspace", "lift_fresh_copy",
                                        "ones",   "rsqrt", "scalar_tensor", "select",    "zeros",    "ones_like",
                                        "view",   NULL };
  g_autofree char *stem = dup_stem (name);
  if (g_hash_table_contains (computed, stem) || g_strv_contains (folded, stem))
    return TRUE;
  stem[0] = g_ascii_toupper (stem[0]);
  return ortrain_ops_lookup ("", stem) != NULL;
}

/* `layer1.0.conv.weight`: identifiers and numbers between dots. */
static gboolean
is_path (const char *name)
{
  gboolean has_dot = FALSE, has_letter = FALSE;
  for (const char *part = name; TRUE; part++)
    {
      const gsize n = strspn (part, IDENTIFIER);
      if (n == 0)
        return FALSE;
      has_letter = has_letter || strcspn (part, G_CSET_a_2_z G_CSET_A_2_Z) < n;
      part += n;
      if (*part == '\0')
        return has_dot && has_letter;
      if (*part != '.')
        return FALSE;
      has_dot = TRUE;
    }
}

/* Names that models give a parameter of their outermost module, and never a constant. */
static gboolean
is_usual (const char *name)
{
  static const char *const parts[] = { "pos_emb",     "position_emb", "positional_emb", "_token",
                                       "logit_scale", "layer_scale",  "A_log" };
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (strstr (name, parts[i]) != NULL)
      return name[strspn (name, IDENTIFIER)] == '\0';
  return FALSE;
}

/* The state that torch.nn.utils.spectral_norm () keeps for the weight that it divides: "fc.weight_u" and "fc.weight_v"
 * are buffers where there is "fc.weight_orig". */
static gboolean
is_power_iterate (OrtrainGraph *graph, const OrtrainValue *value)
{
  if (value->rank != 1 || !(g_str_has_suffix (value->name, "_u") || g_str_has_suffix (value->name, "_v")))
    return FALSE;
  g_autofree char *weight = g_strdup_printf ("%.*s_orig", (int) strlen (value->name) - 2, value->name);
  const OrtrainValue *found = ortrain_graph_find_value (graph, weight);
  return found != NULL && found->tensor != NULL && found->rank > 1;
}

static void
judge_names (OrtrainReaderState *state, OrtrainGraph *graph)
{
  const gboolean is_of_modules = g_strcmp0 (state->reader->proto->producer_name, PRODUCER_OF_MODULES) == 0;
  g_autoptr (GHashTable) stems = is_of_modules ? find_computed_stems (graph) : NULL;
  gboolean speaks = is_of_modules;
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (!ortrain_dtype_is_floating (value->dtype) || value->enclosure != NULL)
        continue;
      const gboolean is_bare =
          !g_ascii_isdigit (value->name[0]) && value->name[strspn (value->name, IDENTIFIER)] == '\0';
      if (is_numbered (value->name) || (is_bare && stems != NULL && is_named_after_operator (value->name, stems)))
        value->provenance = ORTRAIN_PROVENANCE_MADE;
      else if (is_power_iterate (graph, value))
        value->provenance = ORTRAIN_PROVENANCE_CONSTANT;
      else if (is_path (value->name) || is_usual (value->name) || (is_of_modules && is_bare))
        value->provenance = ORTRAIN_PROVENANCE_MODULE;
      speaks = speaks || value->provenance == ORTRAIN_PROVENANCE_MODULE;
    }
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      const OrtrainOrigin *origin = ortrain_graph_reader_find_origin (state->reader, value);
      if (!speaks)
        value->provenance = ORTRAIN_PROVENANCE_UNKNOWN;
      else if (origin != NULL && origin->kind == ORTRAIN_ORIGIN_CONSTANT &&
               (value->provenance == ORTRAIN_PROVENANCE_MADE ||
                (is_of_modules && value->provenance != ORTRAIN_PROVENANCE_MODULE)))
        value->provenance = ORTRAIN_PROVENANCE_LITERAL;
    }
}

void
ortrain_reader_read_provenance (OrtrainReaderState *state)
{
  OrtrainGraph *graph = state->reader->graph;
  g_autofree char *signature =
      ortrain_message_metadata_dup (&state->reader->proto->graph->base, ORTRAIN_GRAPH_METADATA,
                                    ORTRAIN_METADATA_SIGNATURE, ORTRAIN_METADATA_MAX_SIGNATURE);
  g_autoptr (GHashTable) declared = signature != NULL ? parse_signature (signature) : NULL;
  if (declared != NULL)
    apply_list (declared, graph);
  else
    judge_names (state, graph);
}
