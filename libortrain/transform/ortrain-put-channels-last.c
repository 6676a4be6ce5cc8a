/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-put-channels-last-private.h"

#include "ops/ortrain-channels-last-private.h"

/* ONNX has images as [batch, channels, height, width]. Tensor cores of a GPU sum over channels, which then have to be
 * neighbours in memory: for images in ONNX's order the library copies all operands of a convolution into another layout
 * first, and the result back.
 *
 * Regions are nodes that can compute with channels last, connected by the images between them: convolutions and their
 * gradients, batch normalization, element-wise operators, pools, reductions, joins. A layout is said by shapes alone:
 * in a region, images are [batch, height, width, channels], and where one is read or written by a node outside of it,
 * it is transposed. A region is converted where the copies that its convolutions are spared, which the kernels say
 * (OrtrainKernelSetup.spared_bytes), are more bytes than those transpositions move. Nodes that run others again are in
 * the region of those, and do not count: the decision does not depend on recomputation.
 *
 * No image is kept for the backward pass in both layouts: where that pass reads it in the one that it was computed in,
 * and in the other one too, it is transposed again there. */

#define MAX_OPERANDS 32
#define TRANSPOSED 2.0 /* each byte is read and written */

typedef struct
{
  OrtrainNode *node;
  gboolean takes;          /* it can be in a region */
  guint32 inputs, outputs; /* which of its operands are images; see OrtrainOpDef.find_images */
  gboolean is_elementwise;
  guint region;    /* index of another place in it, or its own */
  guint original;  /* index of the node that this one runs again, or its own */
  guint next_copy; /* index of another node that runs the same again; 0: none */
  double spared;   /* by computing it with channels last */
} Place;

/* A reader of an image of a region that is outside of it. */
typedef struct
{
  OrtrainNode *node;
  guint index;
  OrtrainValue *value;
} Foreign;

typedef struct
{
  OrtrainGraph *graph;
  const OrtrainProvider *provider;
  Place *places; /* by node->mark */
  guint n;
  double *gains;      /* by region */
  GHashTable *last;   /* value → the same with channels last: itself in a region, else another value */
  GHashTable *second; /* value of a region → the same in ONNX's order */
  GHashTable *twice;  /* values that are transposed again in the backward pass */
  GHashTable *again;  /* those → their transposed values there */
  GArray *foreign;
} Layouts;

/* ---- regions ---- */

static guint
find_region (Layouts *self, guint place)
{
  while (self->places[place].region != place)
    place = self->places[place].region = self->places[self->places[place].region].region;
  return place;
}

static void
join_regions (Layouts *self, guint a, guint b)
{
  a = find_region (self, a);
  b = find_region (self, b);
  self->places[MAX (a, b)].region = MIN (a, b);
}

/* Once all is weighed. */
static gboolean
is_converted (Layouts *self, guint place)
{
  return self->places[place].takes && self->gains[find_region (self, place)] > 0;
}

static const Place *
get_producer (const Layouts *self, const OrtrainValue *value)
{
  return value->producer != NULL ? &self->places[value->producer->mark] : NULL;
}

/* Whether a node that can be in a region writes it as an image. */
static gboolean
is_written_as_image (const Layouts *self, const OrtrainValue *value)
{
  const Place *place = get_producer (self, value);
  return place != NULL && place->takes && (place->outputs >> value->output_index & 1) != 0;
}

/* … and it may change its shape: nobody outside of the graph knows it. */
static gboolean
may_change (const Layouts *self, const OrtrainValue *value)
{
  return is_written_as_image (self, value) && value->role == ORTRAIN_ROLE_NONE && !value->is_output;
}

/* A reader that looks at its type alone. */
static gboolean
reads_type (const OrtrainUse *use)
{
  return use->index > 0 && ortrain_node_get_kind (use->node) == ORTRAIN_OP_KIND_CAST_LIKE;
}

static gboolean
reads_image (const Layouts *self, const OrtrainUse *use)
{
  const Place *place = &self->places[use->node->mark];
  return place->takes && use->index < MAX_OPERANDS && (place->inputs >> use->index & 1) != 0;
}

static gboolean
is_elementwise (const OrtrainNode *node)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (!ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE) || ortrain_node_has_flag (node, ORTRAIN_OP_RANDOM) ||
      node->body != NULL || node->outputs->len != 1 || !ortrain_value_is_image (ortrain_node_output (node, 0)) ||
      ortrain_node_output (node, 0)->tensor != NULL)
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = ortrain_node_input (node, i);
      if (input != NULL && (input->rank > ORTRAIN_IMAGE_RANK || !ortrain_value_get_static_dims (input, dims)))
        return FALSE;
    }
  return TRUE;
}

static void
describe_place (Place *place)
{
  const OrtrainNode *node = place->node;
  if (node->op == NULL || node->inputs->len > MAX_OPERANDS || node->phase == ORTRAIN_PHASE_UPDATE)
    return;
  place->is_elementwise = is_elementwise (node);
  place->takes = place->is_elementwise || (node->op->find_images != NULL && node->body == NULL &&
                                           node->op->find_images (node, &place->inputs, &place->outputs));
  if (!place->is_elementwise)
    return;
  place->outputs = 1;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainUse use = { (OrtrainNode *) node, i };
      if (ortrain_value_is_image (ortrain_node_input (node, i)) && !reads_type (&use))
        place->inputs |= 1u << i;
    }
}

/* ---- what a region gains ---- */

static double
count_bytes (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  double bytes = (double) ortrain_dtype_get_size (value->dtype);
  if (!ortrain_value_get_static_dims (value, dims))
    return 0;
  for (gint d = 0; d < value->rank; d++)
    bytes *= (double) dims[d];
  return bytes;
}

/* An image of one channel, or one pixel, is the same memory in both layouts. */
static gboolean
moves (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  return ortrain_value_is_image (value) && ortrain_value_get_static_dims (value, dims) && dims[1] > 1 &&
         dims[2] * dims[3] > 1;
}

static void
describe_operand (const OrtrainValue *value, gboolean turned, OrtrainOperand *operand, gint64 *dims)
{
  gint64 own[ORTRAIN_MAX_RANK];
  *operand = (OrtrainOperand){ .dtype = ORTRAIN_DTYPE_UNDEFINED };
  if (value == NULL || !ortrain_value_get_static_dims (value, own))
    return;
  *operand = (OrtrainOperand){ .dtype = value->dtype, .rank = (guint) value->rank, .dims = dims, .n_elements = 1 };
  for (gint d = 0; d < value->rank; d++)
    {
      dims[turned ? ortrain_channels_last_move_axis (d) : d] = own[d];
      operand->n_elements *= own[d];
    }
  operand->n_bytes = (gsize) operand->n_elements * ortrain_dtype_get_size (value->dtype);
}

/* Asks the kernel with channels last. FALSE: the device has no such kernel, or it refuses. */
static gboolean
ask_kernel (const Layouts *self, const Place *place, double *spared)
{
  OrtrainOperand operands[MAX_OPERANDS + 1];
  gint64 dims[MAX_OPERANDS + 1][ORTRAIN_MAX_RANK];
  const OrtrainNode *node = place->node;
  const guint n = node->inputs->len;
  for (guint i = 0; i < n; i++)
    describe_operand (ortrain_node_input (node, i), place->inputs >> i & 1, &operands[i], dims[i]);
  describe_operand (ortrain_node_output (node, 0), place->outputs & 1, &operands[n], dims[n]);
  const OrtrainKernel *kernel = self->provider->klass->find_kernel (
      self->provider, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_CHANNELS_LAST], operands, n, operands + n, 1);
  if (kernel == NULL)
    return FALSE;
  OrtrainKernelSetup setup = { .op_type = node->op->fused_as[ORTRAIN_FUSION_CHANNELS_LAST],
                               .domain = ORTRAIN_DOMAIN,
                               .attributes = node->attributes,
                               .inputs = operands,
                               .n_inputs = n,
                               .outputs = operands + n,
                               .n_outputs = 1,
                               .provider = self->provider };
  if (!ortrain_kernel_prepare (kernel, &setup, NULL))
    return FALSE;
  *spared = setup.spared_bytes;
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  return TRUE;
}

/* The value, or the one that the same output of the node has that its producer runs again. */
static const OrtrainValue *
find_original (const OrtrainValue *value)
{
  while (value->producer != NULL && value->producer->recomputes != NULL &&
         ortrain_node_output (value->producer->recomputes, value->output_index) != NULL)
    value = ortrain_node_output (value->producer->recomputes, value->output_index);
  return value;
}

/* Readers of a value, by phase: [0] forward, [1] backward. */
typedef struct
{
  guint inside[2], foreign[2]; /* as an image in a region, and otherwise */
} Readers;

/* is_decided: which regions are converted is known, and what runs a node again reads in the backward pass; before, it
 * counts as that node. */
static void
add_readers (Layouts *self, const OrtrainValue *value, gboolean is_decided, Readers *readers)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      const OrtrainNode *node = use->node;
      if (reads_type (use))
        continue;
      const gboolean inside = reads_image (self, use) && (!is_decided || is_converted (self, node->mark));
      if (!is_decided)
        node = self->places[self->places[node->mark].original].node;
      const gboolean is_backward = node->phase == ORTRAIN_PHASE_BACKWARD;
      readers->inside[is_backward] += inside;
      readers->foreign[is_backward] += !inside;
    }
}

/* Whether the backward pass reads a value in the layout that it was computed in, and in the other one, too, which the
 * forward pass also reads. */
static gboolean
is_turned_again (const Readers *readers, gboolean is_written_inside)
{
  const guint *same = is_written_inside ? readers->inside : readers->foreign;
  const guint *other = is_written_inside ? readers->foreign : readers->inside;
  return other[0] > 0 && other[1] > 0 && same[1] > 0;
}

/* A transposition at the border of a region, which is paid once, or once for each pass. */
static void
pay (Layouts *self, GHashTable *paid, guint region, const OrtrainValue *value)
{
  const OrtrainValue *original = find_original (value);
  gpointer key = GSIZE_TO_POINTER ((gsize) original->id * self->n + region + 1);
  if (!moves (original) || !g_hash_table_add (paid, key))
    return;
  const gboolean inside = is_written_as_image (self, original);
  Readers readers = { 0 };
  add_readers (self, original, FALSE, &readers);
  const guint n = is_turned_again (&readers, inside) && (!inside || may_change (self, original)) ? 2 : 1;
  self->gains[region] -= n * TRANSPOSED * count_bytes (original);
}

static void
weigh_borders (Layouts *self)
{
  g_autoptr (GHashTable) paid = g_hash_table_new (NULL, NULL);
  for (guint v = 0; v < self->graph->values->len; v++)
    {
      const OrtrainValue *value = self->graph->values->pdata[v];
      const gboolean inside = is_written_as_image (self, value), changes = may_change (self, value);
      const guint own = inside ? find_region (self, value->producer->mark) : 0;
      if (inside && !changes)
        pay (self, paid, own, value);
      for (guint u = 0; u < value->uses.n; u++)
        {
          const OrtrainUse *use = &value->uses.items[u];
          const gboolean reads = reads_image (self, use);
          if (reads && !inside)
            pay (self, paid, find_region (self, use->node->mark), value);
          else if (changes && !reads && !reads_type (use))
            pay (self, paid, own, value);
        }
    }
}

/* ---- borders ---- */

/* Who reads an output of a node, or of those that run it again. */
static Readers
count_readers (Layouts *self, const OrtrainValue *value)
{
  const Place *producer = get_producer (self, value);
  guint copy = producer != NULL ? producer->next_copy : 0;
  Readers readers = { 0 };
  for (const OrtrainValue *own = value; own != NULL;)
    {
      add_readers (self, own, FALSE, &readers);
      for (own = NULL; own == NULL && copy != 0; copy = self->places[copy].next_copy)
        own = ortrain_node_output (self->places[copy].node, value->output_index);
    }
  return readers;
}

/* The bytes that are moved to have a value in both layouts, where it is needed in both. */
static double
count_turned (Layouts *self, const OrtrainValue *value)
{
  if (!moves (value))
    return 0;
  const Readers readers = count_readers (self, value);
  const gboolean inside = is_written_as_image (self, value), stays = inside && !may_change (self, value);
  const guint *other = inside ? readers.foreign : readers.inside;
  const guint n = stays ? 1 : (other[0] + other[1] > 0 ? 1 : 0) + (is_turned_again (&readers, inside) ? 1 : 0);
  return n * TRANSPOSED * count_bytes (value);
}

/* The bytes that are moved for all images that a node reads or writes. */
static double
count_turned_around (Layouts *self, const Place *place)
{
  const OrtrainNode *node = place->node;
  double bytes = 0;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      gboolean again = FALSE;
      for (guint j = 0; j < i && !again; j++)
        again = node->inputs->pdata[j] == node->inputs->pdata[i];
      if (place->inputs >> i & 1 && !again)
        bytes += count_turned (self, find_original (ortrain_node_input (node, i)));
    }
  for (guint k = 0; k < node->outputs->len; k++)
    if (place->outputs >> k & 1)
      bytes += count_turned (self, node->outputs->pdata[k]);
  return bytes;
}

static void
set_takes (Layouts *self, guint place, gboolean takes)
{
  for (guint p = place, first = TRUE; first || p != 0; p = self->places[p].next_copy, first = FALSE)
    self->places[p].takes = takes;
}

/* Takes the node out of its region if fewer bytes are transposed then: the value that is transposed instead may be
 * smaller, such as the result of a Cast of an input of the graph. */
static gboolean
leave_out (Layouts *self, guint p)
{
  const Place *place = &self->places[p];
  if (!place->takes || place->original != p)
    return FALSE;
  const double inside = count_turned_around (self, place) - place->spared;
  set_takes (self, p, FALSE);
  if (count_turned_around (self, place) < inside)
    return TRUE;
  set_takes (self, p, TRUE);
  return FALSE;
}

#define MAX_ROUNDS 8

static void
shrink_regions (Layouts *self)
{
  gboolean changed = TRUE;
  for (guint round = 0; round < MAX_ROUNDS && changed; round++)
    {
      changed = FALSE;
      for (guint p = 0; p < self->n; p++)
        changed |= leave_out (self, round % 2 == 0 ? p : self->n - 1 - p);
    }
}

static void
describe_places (Layouts *self)
{
  for (guint p = 0; p < self->n; p++)
    {
      Place *place = &self->places[p];
      place->node = self->graph->nodes->pdata[p];
      place->node->mark = place->region = place->original = p;
    }
  for (guint p = 0; p < self->n; p++)
    {
      Place *place = &self->places[p];
      const OrtrainNode *original = place->node;
      while (original->recomputes != NULL)
        original = original->recomputes;
      if (original != place->node)
        {
          place->original = original->mark;
          place->next_copy = self->places[original->mark].next_copy;
          self->places[original->mark].next_copy = p;
        }
      describe_place (place);
    }
}

static void
join_neighbours (Layouts *self)
{
  for (guint p = 0; p < self->n; p++)
    {
      const Place *place = &self->places[p];
      for (guint i = 0; i < place->node->inputs->len && place->takes; i++)
        {
          const OrtrainValue *input = ortrain_node_input (place->node, i);
          if (place->inputs >> i & 1 && is_written_as_image (self, input))
            join_regions (self, p, input->producer->mark);
        }
      if (place->takes && self->places[place->original].takes)
        join_regions (self, p, place->original);
    }
}

/* FALSE: nothing is gained anywhere. */
static gboolean
weigh_regions (Layouts *self)
{
  gboolean any = FALSE;
  describe_places (self);
  for (guint p = 0; p < self->n; p++)
    {
      Place *place = &self->places[p];
      if (place->takes && place->node->op->fused_as[ORTRAIN_FUSION_CHANNELS_LAST] != NULL)
        place->takes = ask_kernel (self, place, &place->spared);
      any = any || (place->takes && place->spared > 0);
    }
  if (!any)
    return FALSE;
  join_neighbours (self);
  shrink_regions (self);
  for (guint p = 0; p < self->n; p++)
    if (self->places[p].takes && self->places[p].original == p)
      self->gains[find_region (self, p)] += self->places[p].spared;
  weigh_borders (self);
  return TRUE;
}

/* ---- values in the other layout ---- */

/* With the readers that the graph has: nodes that run again in the backward pass read there. Before anything is
 * converted. */
static void
find_turned_again (Layouts *self)
{
  for (guint v = 0; v < self->graph->values->len; v++)
    {
      OrtrainValue *value = self->graph->values->pdata[v];
      const gboolean inside = is_written_as_image (self, value) && is_converted (self, value->producer->mark);
      Readers readers = { 0 };
      if (!moves (value) || (inside && !may_change (self, value)))
        continue;
      add_readers (self, value, TRUE, &readers);
      if (is_turned_again (&readers, inside))
        g_hash_table_add (self->twice, value);
    }
}

/* Where the same in the other layout is noted for a reader. table: for all others */
static GHashTable *
get_table (const Layouts *self, const OrtrainNode *reader, const OrtrainValue *value, GHashTable *table)
{
  const gboolean is_again = reader->phase == ORTRAIN_PHASE_BACKWARD && g_hash_table_contains (self->twice, value);
  return is_again ? self->again : table;
}

/* A Transpose, or a view where no element moves. before: its first reader. dims: of the result */
static OrtrainValue *
insert_turn (OrtrainNode *before, OrtrainValue *value, const gint64 *perm, gboolean is_view, const gint64 *dims,
             GError **error)
{
  OrtrainGraph *graph = before->graph;
  OrtrainValue *inputs[] = { value, NULL };
  if (is_view)
    inputs[1] = ortrain_graph_const_ints (graph, dims, ORTRAIN_IMAGE_RANK);
  OrtrainNode *node =
      ortrain_graph_insert_node (graph, before, "", is_view ? "Reshape" : "Transpose", "", inputs, is_view ? 2 : 1, 1);
  if (!is_view)
    ortrain_attributes_set_ints (node->attributes, "perm", perm, ORTRAIN_IMAGE_RANK);
  node->phase = before->phase;
  return ortrain_ops_infer_node (node, error) ? ortrain_node_output (node, 0) : NULL;
}

/* The value that a value is a view of. */
static OrtrainValue *
skip_views (OrtrainValue *value)
{
  while (ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_RESHAPE) != NULL)
    value = ortrain_node_input (value->producer, 0);
  return value;
}

/* A value of at most four dimensions, with its channels last, where it is not an image of a region: what element-wise
 * operators broadcast has fewer. */
static OrtrainValue *
put_last (Layouts *self, OrtrainNode *reader, OrtrainValue *value, GError **error)
{
  static const gint64 perm[] = { 0, 2, 3, 1 };
  gint64 own[ORTRAIN_MAX_RANK], dims[ORTRAIN_IMAGE_RANK] = { 1, 1, 1, 1 }, last[ORTRAIN_IMAGE_RANK];
  OrtrainValue *known = g_hash_table_lookup (self->last, value);
  if (known == value) /* it is one of a region */
    return known;
  GHashTable *table = get_table (self, reader, value, self->last);
  known = g_hash_table_lookup (table, value);
  if (known != NULL)
    return known;
  ortrain_value_get_static_dims (value, own);
  for (gint d = 0; d < value->rank; d++)
    dims[ORTRAIN_IMAGE_RANK - value->rank + d] = own[d];
  for (guint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    last[ortrain_channels_last_move_axis (d)] = dims[d];
  const gboolean is_view = dims[1] == 1 || dims[2] * dims[3] == 1;
  OrtrainValue *source = is_view ? skip_views (value) : value;
  if (!is_view && value->rank < ORTRAIN_IMAGE_RANK)
    source = insert_turn (reader, value, NULL, TRUE, dims, error);
  OrtrainValue *result = source != NULL ? insert_turn (reader, source, perm, is_view, last, error) : NULL;
  if (result != NULL)
    g_hash_table_insert (table, value, result);
  return result;
}

/* An image of a region in ONNX's order, for a reader outside. */
static OrtrainValue *
put_second (Layouts *self, OrtrainNode *reader, OrtrainValue *value, GError **error)
{
  static const gint64 perm[] = { 0, 3, 1, 2 };
  gint64 last[ORTRAIN_MAX_RANK], dims[ORTRAIN_IMAGE_RANK];
  GHashTable *table = get_table (self, reader, value, self->second);
  OrtrainValue *known = g_hash_table_lookup (table, value);
  if (known != NULL)
    return known;
  ortrain_value_get_static_dims (value, last);
  for (guint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    dims[d] = last[ortrain_channels_last_move_axis (d)];
  OrtrainValue *result = insert_turn (reader, value, perm, dims[1] == 1 || dims[2] * dims[3] == 1, dims, error);
  if (result != NULL)
    g_hash_table_insert (table, value, result);
  return result;
}

static void
change_shape (OrtrainValue *value)
{
  OrtrainDim dims[ORTRAIN_IMAGE_RANK];
  for (guint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    dims[ortrain_channels_last_move_axis (d)] = value->dims[d];
  ortrain_value_set_shape (value, value->dtype, dims, ORTRAIN_IMAGE_RANK);
}

/* An output of a converted node gets its new shape; its readers outside of regions are noted. If the shape of an output
 * must stay, the node writes another value, which is transposed into it. */
static gboolean
change_output (Layouts *self, OrtrainNode *node, guint k, GError **error)
{
  static const gint64 perm[] = { 0, 3, 1, 2 };
  OrtrainValue *value = ortrain_node_output (node, k);
  gint64 dims[ORTRAIN_MAX_RANK];
  if (may_change (self, value))
    {
      for (guint u = 0; u < value->uses.n; u++)
        {
          const OrtrainUse *use = &value->uses.items[u];
          const Foreign foreign = { use->node, use->index, value };
          if (!(reads_image (self, use) && is_converted (self, use->node->mark)) && !reads_type (use))
            g_array_append_val (self->foreign, foreign);
        }
      change_shape (value);
      g_hash_table_insert (self->last, value, value);
      return TRUE;
    }
  ortrain_value_get_static_dims (value, dims);
  OrtrainValue *written = ortrain_graph_new_value (self->graph, NULL);
  ortrain_value_set_shape (written, value->dtype, value->dims, value->rank);
  change_shape (written);
  node->outputs->pdata[k] = NULL;
  value->producer = NULL;
  ortrain_node_set_output (node, k, written);
  OrtrainValue *turned = insert_turn (node, written, perm, !moves (value), dims, error);
  if (turned == NULL)
    return FALSE;
  OrtrainNode *turn = turned->producer;
  turn->outputs->pdata[0] = NULL;
  turned->producer = NULL;
  ortrain_node_set_output (turn, 0, value);
  ortrain_graph_delete_value (self->graph, turned);
  g_hash_table_insert (self->last, value, written);
  return TRUE;
}

/* ---- nodes ---- */

static gboolean
change_inputs (Layouts *self, const Place *place, GError **error)
{
  OrtrainNode *node = place->node;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *input = ortrain_node_input (node, i);
      const OrtrainUse use = { node, i };
      const gboolean broadcasts = place->is_elementwise && input != NULL && input->rank > 0 && !reads_type (&use);
      if (input == NULL || (!broadcasts && !(place->inputs >> i & 1)))
        continue;
      OrtrainValue *last = put_last (self, node, input, error);
      if (last == NULL)
        return FALSE;
      ortrain_node_set_input (node, i, last);
    }
  return TRUE;
}

/* Nothing is inferred: shapes are known, and kernels take types together that operators of ONNX do not. */
static gboolean
convert (Layouts *self, Place *place, GError **error)
{
  OrtrainNode *node = place->node;
  return change_inputs (self, place, error) && (place->is_elementwise || node->op->put_channels_last (node, error));
}

static gint
compare_readers (gconstpointer a, gconstpointer b)
{
  const guint x = ((const Foreign *) a)->node->mark, y = ((const Foreign *) b)->node->mark;
  return x < y ? -1 : x > y;
}

static gboolean
convert_regions (Layouts *self, GError **error)
{
  find_turned_again (self);
  for (guint p = 0; p < self->n; p++)
    for (guint k = 0; k < self->places[p].node->outputs->len && is_converted (self, p); k++)
      if (self->places[p].outputs >> k & 1 && !change_output (self, self->places[p].node, k, error))
        return FALSE;
  for (guint p = 0; p < self->n; p++)
    if (is_converted (self, p) && !convert (self, &self->places[p], error))
      return FALSE;
  g_array_sort (self->foreign,
                compare_readers); /* the first one, in the forward pass if any is, has the transposition */
  for (guint f = 0; f < self->foreign->len; f++)
    {
      const Foreign *foreign = &g_array_index (self->foreign, Foreign, f);
      OrtrainValue *second = put_second (self, foreign->node, foreign->value, error);
      if (second == NULL)
        return FALSE;
      ortrain_node_set_input (foreign->node, foreign->index, second);
    }
  return TRUE;
}

/* Whether a device has kernels for any of its nodes: graphs of others stay as they are. So do those with branches,
 * which may read images that are no inputs of their nodes. */
static gboolean
has_convolutions (const OrtrainGraph *graph, const OrtrainProvider *provider)
{
  const OrtrainOperand any = { .dtype = ORTRAIN_DTYPE_FLOAT32 };
  const OrtrainOperand inputs[] = { any, any };
  gboolean found = FALSE;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      const OrtrainNode *node = graph->nodes->pdata[i];
      if (node->op == NULL || ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL))
        return FALSE;
      found = found ||
              (node->op->fused_as[ORTRAIN_FUSION_CHANNELS_LAST] != NULL &&
               provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_CHANNELS_LAST],
                                             inputs, 2, &any, 1) != NULL);
    }
  return found;
}

gboolean
ortrain_put_channels_last (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  if (!has_convolutions (graph, provider))
    return TRUE;
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  Layouts self = { .graph = graph, .provider = provider, .n = graph->nodes->len };
  self.places = g_new0 (Place, self.n + 1);
  self.gains = g_new0 (double, self.n + 1);
  self.last = g_hash_table_new (NULL, NULL);
  self.second = g_hash_table_new (NULL, NULL);
  self.twice = g_hash_table_new (NULL, NULL);
  self.again = g_hash_table_new (NULL, NULL);
  self.foreign = g_array_new (FALSE, FALSE, sizeof (Foreign));
  gboolean ok = TRUE;
  const gboolean any = weigh_regions (&self);
  if (any)
    {
      g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
      ok = convert_regions (&self, error);
    }
  g_free (self.places);
  g_free (self.gains);
  g_hash_table_unref (self.last);
  g_hash_table_unref (self.second);
  g_hash_table_unref (self.twice);
  g_hash_table_unref (self.again);
  g_array_unref (self.foreign);
  if (!ok || !any)
    return ok;
  ortrain_graph_remove_dead (graph);
  return ortrain_graph_sort (graph, error);
}
