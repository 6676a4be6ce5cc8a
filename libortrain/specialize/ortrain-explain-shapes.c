/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "specialize/ortrain-explain-shapes-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>
#include <time.h>

#define MAX_MICROSECONDS 300000 /* after which the message is left as it is, for large graphs */
#define MAX_NODES 48            /* that are looked at after an input, the nearest first */
#define MAX_SIZES 12            /* that are tried for a dimension */
#define MAX_TRIES 96            /* each of which infers the whole graph */
#define MAX_GRAPH 20000         /* nodes of a graph that is small enough to be inferred many times */
#define MAX_GRAPH_OF_NUMBERS 2000
#define MAX_NUMBER 512 /* sizes up to here are tried one by one */
#define MAX_ELEMENTS 8 /* of constants such as the shape of a Reshape */

static void
add_size (GArray *sizes, gint64 size)
{
  for (guint i = 0; i < sizes->len; i++)
    if (g_array_index (sizes, gint64, i) == size)
      return;
  if (size > 0 && sizes->len < MAX_SIZES)
    g_array_append_val (sizes, size);
}

/* The sizes of a weight, and the elements of a small constant of integers. */
static void
add_sizes_of (GArray *sizes, const OrtrainValue *operand)
{
  if (operand->kind == ORTRAIN_VALUE_COMPUTED || operand->kind == ORTRAIN_VALUE_INPUT)
    return;
  for (gint d = 0; d < operand->rank; d++)
    if (ortrain_dim_is_int (operand->dims[d]))
      add_size (sizes, operand->dims[d].value);
  const gboolean is_small = operand->tensor != NULL && operand->dtype == ORTRAIN_DTYPE_INT64 &&
                            ortrain_tensor_get_n_elements (operand->tensor) <= MAX_ELEMENTS;
  for (gint64 i = 0; is_small && i < ortrain_tensor_get_n_elements (operand->tensor); i++)
    add_size (sizes, ortrain_tensor_peek_int (operand->tensor, i));
}

/* Sizes that the nodes after an input may need. */
static GArray *
find_sizes (const OrtrainValue *input)
{
  GArray *sizes = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  const OrtrainValue *value = input;
  for (guint n = 0;; n++)
    {
      for (guint u = 0; value != NULL && u < value->uses.n && nodes->len < MAX_NODES; u++)
        if (g_hash_table_add (seen, value->uses.items[u].node))
          g_ptr_array_add (nodes, value->uses.items[u].node);
      if (n >= nodes->len)
        return sizes;
      const OrtrainNode *node = nodes->pdata[n];
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL)
          add_sizes_of (sizes, node->inputs->pdata[i]);
      value = ortrain_node_output (node, 0);
    }
}

/* A dimension of an input, and the sizes that it might need. */
typedef struct
{
  const OrtrainSpecializeInput *input;
  guint axis;
  gint64 size;
  gboolean with_equal; /* also changes the other open dimensions of the input of the same size, since pictures are often
                          square */
} Change;

static gboolean
is_open (const OrtrainValue *value, guint axis)
{
  return (gint) axis >= value->rank || !ortrain_dim_is_int (value->dims[axis]);
}

/* The dimensions of the input that the change applies to. */
static void
apply_change (const Change *change, const OrtrainValue *value, gint64 *dims)
{
  const OrtrainSpecializeInput *input = change->input;
  memcpy (dims, input->dims, input->rank * sizeof *dims);
  for (guint d = 1; d < input->rank; d++)
    if (change->with_equal && is_open (value, d) && input->dims[d] == input->dims[change->axis])
      dims[d] = change->size;
  dims[change->axis] = change->size;
}

/* Whether the inputs are right with the change, in all places that have the same symbol. */
static gboolean
is_right (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs, const OrtrainValue *value,
          const Change *change)
{
  g_autofree OrtrainSpecializeInput *changed = g_memdup2 (inputs, n_inputs * sizeof *inputs);
  g_autofree gint64 *dims = g_new (gint64, (gsize) n_inputs * ORTRAIN_MAX_RANK);
  for (guint i = 0; i < n_inputs; i++)
    {
      gint64 *own = dims + (gsize) i * ORTRAIN_MAX_RANK;
      const OrtrainValue *other = ortrain_graph_find_value (graph, inputs[i].name);
      memcpy (own, inputs[i].dims, inputs[i].rank * sizeof *own);
      changed[i].dims = own;
      if (&inputs[i] == change->input)
        apply_change (change, value, own);
      for (guint d = 0; d < inputs[i].rank; d++)
        if ((other != NULL && (gint) d < other->rank && (gint) change->axis < value->rank &&
             ortrain_dim_equal (other->dims[d], value->dims[change->axis])))
          own[d] = change->size;
      if (inputs[i].contents != NULL && memcmp (own, inputs[i].dims, inputs[i].rank * sizeof *own) != 0)
        return FALSE;
    }
  g_autoptr (OrtrainGraph) made = ortrain_specialize (graph, changed, n_inputs, NULL);
  return made != NULL;
}

/* Whether the size is tried for this dimension already, under another input that has the same symbol. */
static gboolean
is_tried (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint i, const OrtrainValue *value, guint axis)
{
  for (guint k = 0; k <= i; k++)
    {
      const OrtrainValue *other = ortrain_graph_find_value (graph, inputs[k].name);
      for (gint d = 0; other != NULL && d < other->rank && (k < i || d < (gint) axis); d++)
        if ((gint) axis < value->rank && ortrain_dim_equal (other->dims[d], value->dims[axis]))
          return TRUE;
    }
  return FALSE;
}

/* The changes that are tried. */
typedef struct
{
  OrtrainGraph *graph;
  const OrtrainSpecializeInput *inputs;
  guint n_inputs, n_tries, n_right;
  gint64 end;   /* monotonic time */
  Change found; /* the last one that is right */
} Search;

/* In microseconds of processor time, so that other programs on the machine do not matter. */
static gint64
get_thread_time (void)
{
  struct timespec time = { 0 };
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &time);
  return (gint64) time.tv_sec * G_USEC_PER_SEC + time.tv_nsec / 1000;
}

static void
try_change (Search *self, const OrtrainValue *value, const Change *change)
{
  if (change->size == change->input->dims[change->axis] || self->n_tries >= MAX_TRIES || get_thread_time () > self->end)
    return;
  self->n_tries++;
  if (!is_right (self->graph, self->inputs, self->n_inputs, value, change))
    return;
  self->found = *change;
  self->n_right++;
}

/* Tries sizes that occur in the model. */
static void
try_weights (Search *self, const OrtrainSpecializeInput *input, const OrtrainValue *value)
{
  g_autoptr (GArray) sizes = find_sizes (value);
  for (guint d = input->rank; d-- > 0;)
    if (is_open (value, d) && !is_tried (self->graph, self->inputs, (guint) (input - self->inputs), value, d))
      for (guint k = 0; k < sizes->len; k++)
        try_change (self, value, &(Change){ input, d, g_array_index (sizes, gint64, k), FALSE });
}

/* Tries other sizes: the size that a later layer needs may follow from that of the input by a formula. The batch is not
 * tried. */
static void
try_numbers (Search *self, const OrtrainSpecializeInput *input, const OrtrainValue *value)
{
  for (guint d = 1; d < input->rank; d++)
    {
      gboolean is_first = is_open (value, d) && input->dims[d] > 0 && input->dims[d] <= MAX_NUMBER / 2;
      for (guint k = 1; k < d; k++)
        is_first = is_first && !(is_open (value, k) && input->dims[k] == input->dims[d]);
      for (gint64 size = 1; is_first && size <= 2 * input->dims[d]; size++)
        try_change (self, value, &(Change){ input, d, size, TRUE });
    }
}

static guint
find_change (Search *self, void (*try_input) (Search *, const OrtrainSpecializeInput *, const OrtrainValue *))
{
  self->n_tries = self->n_right = 0;
  for (guint i = 0; i < self->n_inputs; i++)
    {
      const OrtrainValue *value = ortrain_graph_find_value (self->graph, self->inputs[i].name);
      if (value != NULL && value->kind == ORTRAIN_VALUE_INPUT && self->inputs[i].contents == NULL)
        try_input (self, &self->inputs[i], value);
    }
  return self->n_right;
}

void
ortrain_explain_shapes (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs, GError **error)
{
  Search search = { graph, inputs, n_inputs, .end = get_thread_time () + MAX_MICROSECONDS };
  if (error == NULL || !g_error_matches (*error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE) ||
      graph->nodes->len > MAX_GRAPH)
    return;
  guint n_right = find_change (&search, try_weights);
  if (n_right == 0 && graph->nodes->len <= MAX_GRAPH_OF_NUMBERS)
    n_right = find_change (&search, try_numbers);
  if (n_right != 1) /* with several right sizes it is unknown which one is meant */
    return;
  gint64 dims[ORTRAIN_MAX_RANK];
  const OrtrainSpecializeInput *input = search.found.input;
  apply_change (&search.found, ortrain_graph_find_value (graph, input->name), dims);
  g_autofree char *is = ortrain_shape_to_string (input->dims, input->rank);
  g_autofree char *wanted = ortrain_shape_to_string (dims, input->rank);
  g_prefix_error (error, "Input '%s' is %s, the model needs %s: ", ortrain_text_show (input->name), is, wanted);
}
