/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-classifier-private.h"

#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"

/* The scores of a vocabulary are often the largest value of a training step, and they live at its peak: from the end of
 * the forward pass to the beginning of the backward pass. The gradient of the loss is known before the backward pass
 * begins, so that both gradients of the layer can be computed with the loss, of a few rows of scores at a time. */

/* The size of a piece. On the host, a piece holds about as many scores as caches do, in SCORES_BYTES. On a device, it
 * has so many rows that the traffic of the weight's gradient is 1 / WEIGHT_PART of the piece's own, as long as the
 * piece takes at most 1 / MEMORY_PARTS of the memory. It has at least LEAST_ROWS rows, since the weight is read and its
 * gradient is read and written for each piece; and there are at most MOST_PIECES pieces, unless one would have more
 * than MANY_ROWS rows. */
#define SCORES_BYTES (8 << 20)
#define WEIGHT_PART 8
#define MEMORY_PARTS 64
#define LEAST_ROWS 256
#define MOST_PIECES 32
#define MANY_ROWS 2048
#define ROWS_STEP 64
#define PITCH_BYTES 16 /* alignment of the rows of operands of products on a device */
#define MAX_NODES 64   /* between the product and the loss, and in front of the gradient of the loss */

typedef struct
{
  OrtrainNode *product, *add, *loss; /* add: of the bias, or NULL */
  OrtrainValue *x, *weight, *bias;
  gboolean transposed;               /* the weight is [n, k] */
  gint64 n, k;                       /* classes, columns of x */
  OrtrainNode *gradient;             /* of the loss; NULL: none is wanted */
  OrtrainNode *dx, *dweight, *dbias; /* that compute the other gradients, or NULL */
  gboolean swapped;                  /* dweight is [n, k] */
  guint n_nodes;                     /* that were looked at */
} Classifier;

/* ---- values ---- */

static gint64
count_elements (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK], n;
  return ortrain_value_get_static_dims (value, dims) && ortrain_checked_n_elements (dims, (gsize) value->rank, &n) ? n
                                                                                                                   : -1;
}

static gint64
get_last_dim (const OrtrainValue *value)
{
  return value->rank > 0 ? value->dims[value->rank - 1].value : 1;
}

/* The value before views gave it another shape. */
static OrtrainValue *
find_origin (OrtrainValue *value)
{
  while (value->producer != NULL && ortrain_node_is_view (value->producer))
    value = ortrain_node_input (value->producer, 0);
  return value;
}

/* Whether both are the same elements; the backward pass may compute them again. */
static gboolean
is_same (OrtrainValue *a, OrtrainValue *b)
{
  a = find_origin (a);
  b = find_origin (b);
  if (a == b || a->producer == NULL || b->producer == NULL)
    return a == b;
  return (a->producer->recomputes == b->producer || b->producer->recomputes == a->producer) &&
         a->output_index == b->output_index;
}

/* ---- products ---- */

static gboolean
is_product (const OrtrainNode *node)
{
  const OrtrainOpKind kind = ortrain_node_get_kind (node);
  return kind == ORTRAIN_OP_KIND_MATMUL || kind == ORTRAIN_OP_KIND_FUSED_MATMUL || kind == ORTRAIN_OP_KIND_GEMM;
}

static gboolean
flag (const OrtrainNode *node, const char *name)
{
  return ortrain_attributes_get_int (node->attributes, name, 0) != 0;
}

/* Nothing but transpositions of matrices. */
static gboolean
is_plain (const OrtrainNode *node)
{
  return !ortrain_attributes_has (node->attributes, "permA") && !ortrain_attributes_has (node->attributes, "permB") &&
         !ortrain_attributes_has (node->attributes, "permY") &&
         ortrain_attributes_get_float (node->attributes, "alpha", 1) == 1;
}

/* One number for each class. */
static gboolean
is_for_classes (const Classifier *self, const OrtrainValue *value)
{
  return value->rank == 1 && get_last_dim (value) == self->n;
}

static gboolean
is_bias (const Classifier *self, const OrtrainValue *value)
{
  return value != NULL && is_for_classes (self, value) &&
         (value->producer == NULL || value->producer->phase == ORTRAIN_PHASE_FORWARD);
}

/* The layer that the scores come from. */
static gboolean
match_layer (Classifier *self)
{
  OrtrainValue *value = ortrain_node_input (self->loss, 0);
  const gint64 axis = ortrain_attributes_get_int (self->loss->attributes, "axis", -1);
  if (value->rank < 1 || (axis != -1 && axis != value->rank - 1))
    return FALSE;
  self->n = get_last_dim (value);
  for (;;)
    {
      OrtrainNode *node = value->producer;
      if (node == NULL || node->phase != ORTRAIN_PHASE_FORWARD || value->rank < 2 || get_last_dim (value) != self->n ||
          ++self->n_nodes > MAX_NODES)
        return FALSE;
      if (is_product (node))
        break;
      if (ortrain_node_is_view (node))
        value = ortrain_node_input (node, 0);
      else if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_ADD && self->add == NULL)
        {
          const guint which = is_bias (self, ortrain_node_input (node, 1)) ? 1 : 0;
          self->add = node;
          self->bias = ortrain_node_input (node, which);
          value = ortrain_node_input (node, 1 - which);
          if (!is_bias (self, self->bias) || count_elements (value) != count_elements (ortrain_node_output (node, 0)))
            return FALSE;
        }
      else
        return FALSE;
    }
  const OrtrainNode *product = self->product = value->producer;
  self->x = ortrain_node_input (product, 0);
  self->weight = ortrain_node_input (product, 1);
  self->transposed = flag (product, "transB");
  if (!is_plain (product) || flag (product, "transA") || self->x->rank < 2 || self->weight->rank != 2 ||
      ortrain_node_output (product, 0)->dtype != self->x->dtype)
    return FALSE;
  self->k = get_last_dim (self->x);
  OrtrainValue *third = ortrain_node_input (product, 2);
  if (third == NULL)
    return TRUE;
  if (self->bias != NULL || !is_bias (self, third) ||
      ortrain_attributes_get_float (product->attributes, "beta", 1) != 1)
    return FALSE;
  self->bias = third;
  return TRUE;
}

/* Whether the scores, in `value` and in views of it, are read by the loss and its gradient alone. */
static gboolean
match_readers (Classifier *self, const OrtrainValue *value)
{
  if (value->is_output || value->role != ORTRAIN_ROLE_NONE)
    return FALSE;
  for (guint u = 0; u < value->uses.n; u++)
    {
      OrtrainNode *node = value->uses.items[u].node;
      const guint index = value->uses.items[u].index;
      if (++self->n_nodes > MAX_NODES)
        return FALSE;
      if (node == self->loss && index == 0)
        continue;
      if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CROSS_ENTROPY_GRADIENT && index == 1 &&
          (self->gradient == NULL || self->gradient == node))
        self->gradient = node;
      else if (ortrain_node_is_view (node) ||
               (self->add != NULL && (node == self->add || node->recomputes == self->add)))
        {
          if (!match_readers (self, ortrain_node_output (node, 0)))
            return FALSE;
        }
      else
        return FALSE;
    }
  return TRUE;
}

/* An output of the loss that the gradient alone reads. */
static gboolean
is_only_for_gradient (const Classifier *self, guint output, guint input)
{
  const OrtrainValue *value = ortrain_node_output (self->loss, output);
  if (value == NULL)
    return self->gradient == NULL;
  if (value->is_output || value->role != ORTRAIN_ROLE_NONE || value->uses.n > 1)
    return FALSE;
  return value->uses.n == 0 || (value->uses.items[0].node == self->gradient && value->uses.items[0].index == input);
}

/* ---- gradients ---- */

/* A reader of the gradient of the scores, which is its operand `index`. */
static gboolean
match_gradient (Classifier *self, OrtrainNode *node, guint index)
{
  if (node->phase != ORTRAIN_PHASE_BACKWARD || node->recomputes != NULL)
    return FALSE;
  if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_SUM_TO && index == 0)
    {
      if (self->bias == NULL || self->dbias != NULL || !is_for_classes (self, ortrain_node_output (node, 0)))
        return FALSE;
      self->dbias = node;
      return TRUE;
    }
  if (!is_product (node) || !is_plain (node) || ortrain_node_input (node, 2) != NULL || index > 1)
    return FALSE;
  OrtrainValue *other = ortrain_node_input (node, 1 - index);
  if (other == self->weight && index == 0 && self->dx == NULL && !flag (node, "transA") &&
      flag (node, "transB") != self->transposed)
    {
      self->dx = node;
      return count_elements (ortrain_node_output (node, 0)) == count_elements (self->x);
    }
  if (self->dweight == NULL && other->rank == 2 && get_last_dim (other) == self->k && is_same (other, self->x) &&
      ortrain_node_input (node, index)->rank == 2 && flag (node, "transA") && !flag (node, "transB"))
    {
      self->dweight = node;
      self->swapped = index == 0;
      return TRUE;
    }
  return FALSE;
}

static gboolean
match_gradients (Classifier *self, const OrtrainValue *value)
{
  if (value->is_output || value->role != ORTRAIN_ROLE_NONE)
    return FALSE;
  for (guint u = 0; u < value->uses.n; u++)
    {
      OrtrainNode *node = value->uses.items[u].node;
      if (++self->n_nodes > MAX_NODES)
        return FALSE;
      if (ortrain_node_is_view (node) && value->uses.items[u].index == 0)
        {
          const OrtrainValue *view = ortrain_node_output (node, 0);
          if (get_last_dim (view) != self->n || !match_gradients (self, view))
            return FALSE;
        }
      else if (!match_gradient (self, node, value->uses.items[u].index))
        return FALSE;
    }
  return TRUE;
}

/* Whether the value can already be computed in the forward pass, from values that exist before the step: a factor that
 * is constant, or the scale of the loss. */
static gboolean
can_hoist (Classifier *self, const OrtrainValue *value)
{
  const OrtrainNode *node = value->producer;
  if (node == NULL)
    return TRUE;
  if (node->phase != ORTRAIN_PHASE_BACKWARD || node->op == NULL || ++self->n_nodes > MAX_NODES ||
      (node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL | ORTRAIN_OP_UPDATES)))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL && !can_hoist (self, node->inputs->pdata[i]))
      return FALSE;
  return TRUE;
}

static void
hoist (const OrtrainValue *value)
{
  OrtrainNode *node = value->producer;
  if (node == NULL || node->phase == ORTRAIN_PHASE_FORWARD)
    return;
  node->phase = ORTRAIN_PHASE_FORWARD;
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL)
      hoist (node->inputs->pdata[i]);
}

static gboolean
match (Classifier *self)
{
  const char *reduction = ortrain_attributes_get_string (self->loss->attributes, "reduction", "mean");
  if (g_str_equal (reduction, "none") || self->loss->phase != ORTRAIN_PHASE_FORWARD || !match_layer (self) ||
      !match_readers (self, ortrain_node_output (self->product, 0)) || !is_only_for_gradient (self, 1, 3) ||
      !is_only_for_gradient (self, 2, 4))
    return FALSE;
  if (self->gradient == NULL)
    return TRUE;
  return self->gradient->phase == ORTRAIN_PHASE_BACKWARD && self->gradient->recomputes == NULL &&
         is_same (ortrain_node_input (self->gradient, 2), ortrain_node_input (self->loss, 1)) &&
         match_gradients (self, ortrain_node_output (self->gradient, 0)) &&
         can_hoist (self, ortrain_node_input (self->gradient, 0));
}

/* ---- whether it pays ---- */

static gboolean
is_on_device (const OrtrainProvider *provider)
{
  return ortrain_device_speed_get_launch_bytes (&provider->speed) > 0;
}

/* The bytes of scores in a piece, in rows of so many bytes: as many as caches hold, where pieces cost little. A device
 * reads and writes the gradient of the weight [n, k] for each piece, in memory that its caches do not hold: 2 n k
 * elements, compared with 6 n k operations for each row in three products. */
static double
choose_bytes (const Classifier *self, const OrtrainProvider *provider, gint64 row_bytes)
{
  const OrtrainDType dtype = ortrain_node_output (self->product, 0)->dtype;
  const gsize size =
      ortrain_dtype_get_size (self->dweight != NULL ? ortrain_node_output (self->dweight, 0)->dtype : dtype);
  if (!is_on_device (provider))
    return SCORES_BYTES;
  const double rows =
      WEIGHT_PART * 2.0 * (double) size / 6 * ortrain_device_speed_get_flops_per_byte (&provider->speed, dtype);
  double bytes = rows * (double) row_bytes;
  if (provider->memory_limit > 0)
    bytes = MIN (bytes, (double) (provider->memory_limit / MEMORY_PARTS));
  return MAX (bytes, SCORES_BYTES);
}

/* Rows of a piece; 0: all scores take no more memory than a piece, and the gradient of the weight, which then lives
 * from the forward pass on. That is no reason on a device whose products are slow with rows of this length: in a
 * workspace of the kernel, they have another. */
static gint64
choose_rows (const Classifier *self, const OrtrainProvider *provider)
{
  const OrtrainValue *scores = ortrain_node_output (self->product, 0);
  const gint64 size = (gint64) ortrain_dtype_get_size (scores->dtype), n_rows = count_elements (scores) / self->n;
  gint64 row_bytes;
  if (self->n < 1 || self->k < 1 || !ortrain_checked_mul_i64 (self->n, size, &row_bytes))
    return 0;
  gint64 rows = MAX ((gint64) (choose_bytes (self, provider, row_bytes) / (double) row_bytes),
                     MAX (LEAST_ROWS, MIN (n_rows / MOST_PIECES, MANY_ROWS)));
  rows -= rows % ROWS_STEP;
  gint64 extra = rows;
  if (self->dweight != NULL)
    extra += self->k * (gint64) ortrain_dtype_get_size (ortrain_node_output (self->dweight, 0)->dtype) / size;
  if (n_rows < extra || n_rows < 2 * rows)
    return is_on_device (provider) && row_bytes % PITCH_BYTES != 0 ? n_rows : 0;
  const gint64 n_pieces = (n_rows + rows - 1) / rows;
  rows = (n_rows + n_pieces - 1) / n_pieces;
  return (rows + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
}

enum
{
  INPUT_X,
  INPUT_WEIGHT,
  INPUT_TARGET,
  INPUT_DLOSS,
  INPUT_BIAS,
  INPUT_CLASS_WEIGHTS,
  N_INPUTS
};
#define N_OUTPUTS 4

static gboolean
has_kernel (const OrtrainProvider *provider, const OrtrainNode *node, OrtrainValue *const *outputs)
{
  OrtrainOperand operands[N_INPUTS + N_OUTPUTS] = { 0 };
  for (guint i = 0; i < node->inputs->len; i++)
    operands[i].dtype =
        node->inputs->pdata[i] != NULL ? ((OrtrainValue *) node->inputs->pdata[i])->dtype : ORTRAIN_DTYPE_UNDEFINED;
  for (guint k = 0; k < N_OUTPUTS; k++)
    operands[N_INPUTS + k].dtype = outputs[k] != NULL ? outputs[k]->dtype : ORTRAIN_DTYPE_UNDEFINED;
  return provider->klass->find_kernel (provider, node->domain, node->op_type, operands, node->inputs->len,
                                       operands + N_INPUTS, N_OUTPUTS) != NULL;
}

/* ---- the node ---- */

/* A value moves from the node that computed it to output `k` of another. */
static void
move_output (OrtrainNode *node, guint k, OrtrainValue *value)
{
  OrtrainValue *fresh = ortrain_node_output (node, k);
  value->producer->outputs->pdata[value->output_index] = NULL;
  value->producer = NULL;
  node->outputs->pdata[k] = NULL;
  fresh->producer = NULL;
  ortrain_node_set_output (node, k, value);
  ortrain_graph_delete_value (node->graph, fresh);
}

static void
copy_attributes (const OrtrainNode *from, OrtrainNode *to)
{
  ortrain_attributes_assign (to->attributes, from->attributes);
  ortrain_attributes_remove (to->attributes, "axis");
}

static gboolean
fuse (Classifier *self, const OrtrainProvider *provider)
{
  const gint64 rows = match (self) ? choose_rows (self, provider) : 0;
  if (rows == 0)
    return FALSE;
  OrtrainNode *const computed[N_OUTPUTS] = { self->loss, self->dx, self->dweight, self->dbias };
  OrtrainValue *outputs[N_OUTPUTS], *inputs[N_INPUTS] = { self->x, self->weight, ortrain_node_input (self->loss, 1) };
  for (guint k = 0; k < N_OUTPUTS; k++)
    outputs[k] = computed[k] != NULL ? ortrain_node_output (computed[k], 0) : NULL;
  inputs[INPUT_DLOSS] = self->gradient != NULL ? ortrain_node_input (self->gradient, 0) : NULL;
  inputs[INPUT_BIAS] = self->bias;
  inputs[INPUT_CLASS_WEIGHTS] = ortrain_node_input (self->loss, 2);
  OrtrainGraph *graph = self->loss->graph;
  OrtrainNode *node = ortrain_graph_insert_node (graph, self->loss, ORTRAIN_DOMAIN, "LinearCrossEntropy",
                                                 self->loss->name, inputs, N_INPUTS, N_OUTPUTS);
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
  if (!has_kernel (provider, node, outputs))
    {
      ortrain_graph_delete_node (graph, node);
      return FALSE;
    }
  copy_attributes (self->loss, node);
  if (self->transposed)
    ortrain_attributes_set_int (node->attributes, "transB", 1);
  if (self->swapped)
    ortrain_attributes_set_int (node->attributes, "transW", 1);
  ortrain_attributes_set_int (node->attributes, "rows", rows);
  ortrain_attributes_set_string (node->attributes, "scores", ortrain_node_input (self->loss, 0)->name);
  for (guint k = 0; k < N_OUTPUTS; k++)
    if (outputs[k] != NULL)
      move_output (node, k, outputs[k]);
    else
      ortrain_node_drop_output (node, k);
  if (self->gradient != NULL)
    hoist (inputs[INPUT_DLOSS]);
  return TRUE;
}

static GPtrArray *
find_losses (OrtrainGraph *graph)
{
  GPtrArray *losses = g_ptr_array_new ();
  for (guint i = 0; i < graph->nodes->len; i++)
    if (ortrain_node_get_kind (graph->nodes->pdata[i]) == ORTRAIN_OP_KIND_CROSS_ENTROPY)
      g_ptr_array_add (losses, graph->nodes->pdata[i]);
  return losses;
}

gboolean
ortrain_fuse_classifier (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  g_autoptr (GPtrArray) losses = find_losses (graph);
  gboolean any = FALSE;
  if (losses->len == 0)
    return TRUE;
  ortrain_graph_remove_dead (graph); /* casts that were absorbed read the scores, too */
  g_clear_pointer (&losses, g_ptr_array_unref);
  losses = find_losses (graph);
  for (guint i = 0; i < losses->len; i++)
    {
      Classifier classifier = { .loss = losses->pdata[i] };
      any = fuse (&classifier, provider) || any;
    }
  if (any)
    ortrain_graph_remove_dead (graph); /* scores and the nodes that computed them */
  return ortrain_graph_sort (graph, error);
}
