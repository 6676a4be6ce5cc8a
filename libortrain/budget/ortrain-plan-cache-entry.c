/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-plan-cache-entry-private.h"

#include "core/ortrain-disk-cache-private.h"
#include "plan/ortrain-memory-plan-private.h"

#include <string.h>

#define CACHE_KIND "budget"
#define MAX_KNOWN 64 /* more than a search keeps */

/* ---- Describing what a search depends on: whole numbers of 8 bytes, little-endian; names with their lengths. All of
 * it goes into a checksum piece by piece, as a graph may have a million values ---- */

typedef struct
{
  GChecksum *sum;
  gsize n;
  guint8 bytes[4096]; /* [n]: not in the sum yet */
} Sink;

static void
flush (Sink *self)
{
  g_checksum_update (self->sum, self->bytes, (gssize) self->n);
  self->n = 0;
}

static void
put (Sink *self, gconstpointer bytes, gsize n)
{
  if (n > sizeof self->bytes - self->n)
    flush (self);
  if (n > sizeof self->bytes)
    g_checksum_update (self->sum, bytes, (gssize) n);
  else if (n > 0)
    {
      memcpy (self->bytes + self->n, bytes, n);
      self->n += n;
    }
}

static void
put_int (Sink *to, gint64 value)
{
  const gint64 little = GINT64_TO_LE (value);
  put (to, &little, sizeof little);
}

static void
put_ints (Sink *to, const gint64 *values, gsize n)
{
  for (gsize i = 0; i < n; i++)
    put_int (to, values[i]);
}

#define PUT_INTS(to, ...)                                                                                              \
  put_ints (to, (const gint64[]){ __VA_ARGS__ }, sizeof ((const gint64[]){ __VA_ARGS__ }) / sizeof (gint64))

static void
put_double (Sink *to, double value)
{
  gint64 bits;
  memcpy (&bits, &value, sizeof bits);
  put_int (to, bits);
}

static void
put_bytes (Sink *to, gconstpointer bytes, gsize n)
{
  put_int (to, (gint64) n);
  put (to, bytes, n);
}

static void
put_text (Sink *to, const char *text)
{
  if (text == NULL)
    put_int (to, -1);
  else
    put_bytes (to, text, strlen (text));
}

static void
put_dims (Sink *to, const OrtrainDim *dims, gint rank)
{
  put_int (to, rank);
  for (gint d = 0; d < rank; d++)
    {
      g_autofree char *text = ortrain_dim_is_int (dims[d]) ? NULL : ortrain_dim_to_string (dims[d]);
      put_int (to, text == NULL ? dims[d].value : 0);
      put_text (to, text);
    }
}

static void put_graph (Sink *to, const OrtrainGraph *graph);

/* Contents of tensors decide nothing here but the answers of kernels, which the plan has. */
static void
put_attribute (Sink *to, const OrtrainAttribute *attribute)
{
  put_text (to, attribute->name);
  put_int (to, attribute->kind);
  put_int (to, (gint64) attribute->n);
  switch (attribute->kind)
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
      put_double (to, attribute->v.f);
      break;
    case ORTRAIN_ATTRIBUTE_INT:
      put_int (to, attribute->v.i);
      break;
    case ORTRAIN_ATTRIBUTE_STRING:
      put_text (to, attribute->v.s);
      break;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      for (gsize i = 0; i < attribute->n; i++)
        put_double (to, (double) attribute->v.floats[i]);
      break;
    case ORTRAIN_ATTRIBUTE_INTS:
      for (gsize i = 0; i < attribute->n; i++)
        put_int (to, attribute->v.ints[i]);
      break;
    case ORTRAIN_ATTRIBUTE_STRINGS:
      for (gsize i = 0; i < attribute->n; i++)
        put_text (to, attribute->v.strings[i]);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPH:
      put_graph (to, ORTRAIN_GRAPH (attribute->v.g));
      break;
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      for (gsize i = 0; i < attribute->n; i++)
        put_graph (to, ORTRAIN_GRAPH (attribute->v.graphs[i]));
      break;
    case ORTRAIN_ATTRIBUTE_TENSOR:
    case ORTRAIN_ATTRIBUTE_TENSORS:
      break;
    }
}

/* The id of each value; for values that a branch captures, which are of another graph, the name. */
static void
put_operands (Sink *to, const OrtrainGraph *graph, const GPtrArray *values)
{
  put_int (to, values->len);
  for (guint i = 0; i < values->len; i++)
    {
      const OrtrainValue *value = values->pdata[i];
      put_int (to, value == NULL ? -1 : value->graph == graph ? (gint64) value->id : -2);
      if (value != NULL && value->graph != graph)
        put_text (to, value->name);
    }
}

static void
put_node (Sink *to, const OrtrainGraph *graph, const OrtrainNode *node)
{
  put_text (to, node->domain);
  put_text (to, node->op_type);
  put_text (to, node->name);
  PUT_INTS (to, node->phase, node->number, node->recomputes != NULL, node->on_host, node->is_update);
  put_text (to, ortrain_graph_get_label (graph, node->scope));
  put_operands (to, graph, node->inputs);
  put_operands (to, graph, node->outputs);
  const guint n_attributes = ortrain_attributes_get_n (node->attributes);
  put_int (to, n_attributes);
  for (guint a = 0; a < n_attributes; a++)
    put_attribute (to, ortrain_attributes_get_nth (node->attributes, a));
  put_int (to, node->body != NULL);
  if (node->body != NULL)
    put_graph (to, node->body);
}

static void
put_graph (Sink *to, const OrtrainGraph *graph)
{
  PUT_INTS (to, graph->opset, graph->next_number, graph->values->len);
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      put_text (to, value->name);
      PUT_INTS (to, value->kind, value->dtype, value->role, value->is_output, value->on_host, value->tensor != NULL,
                value->partner != NULL ? (gint64) value->partner->id : -1);
      put_dims (to, value->dims, value->rank);
    }
  put_operands (to, graph, graph->inputs);
  put_operands (to, graph, graph->outputs);
  put_int (to, graph->nodes->len);
  for (guint t = 0; t < graph->nodes->len; t++)
    put_node (to, graph, graph->nodes->pdata[t]);
}

static void
put_kernels (Sink *to, const OrtrainMemoryPlan *plan)
{
  put_int (to, plan->kernels->len);
  for (guint k = 0; k < plan->kernels->len; k++)
    {
      const OrtrainPreparedKernel *kernel = plan->kernels->pdata[k];
      put_text (to, kernel->kernel->domain);
      put_text (to, kernel->kernel->op_type);
      put_int (to, (gint64) kernel->workspace_bytes);
      put_int (to, (gint64) kernel->can_accumulate);
      put_int (to, kernel->kernel->run_joined != NULL);
      put_double (to, kernel->flops);
      put_double (to, kernel->bytes_moved);
      put_int (to, kernel->n_outputs);
      for (guint i = 0; i < kernel->n_outputs; i++)
        put_int (to, (gint64) kernel->inplace[i]);
    }
}

static void
put_plan (Sink *to, const OrtrainMemoryPlan *plan)
{
  PUT_INTS (to, (gint64) plan->arena_bytes, (gint64) plan->host_arena_bytes, (gint64) plan->lower_bound_bytes,
            (gint64) plan->alignment);
  for (guint c = 0; c <= ORTRAIN_CATEGORY_OUTPUT; c++)
    put_int (to, (gint64) plan->persistent[c]);
  put_int (to, plan->n_values);
  for (guint v = 0; v < plan->n_values; v++)
    {
      const OrtrainPlanValue *value = &plan->values[v];
      PUT_INTS (to, value->root, (gint64) value->bytes, value->region, (gint64) value->offset, value->first,
                value->last, value->category);
    }
  put_int (to, plan->n_steps);
  for (guint s = 0; s < plan->n_steps; s++)
    {
      const OrtrainPlanStep *step = &plan->steps[s];
      PUT_INTS (to, step->node->number, step->recomputes, step->phase, step->stream, step->n_inputs, step->n_outputs,
                step->workspace, step->n_joined, step->n_waits, (gint64) step->accumulates, (gint64) step->gradients);
      put_double (to, step->flops);
      put_double (to, step->bytes_moved);
    }
  put_int (to, plan->n_operands);
  for (guint i = 0; i < plan->n_operands; i++)
    {
      put_int (to, plan->operands[i]);
      put_int (to, (gint64) plan->inplace[i]);
    }
  put_int (to, plan->n_waits);
  for (guint i = 0; i < plan->n_waits; i++)
    put_int (to, plan->waits[i]);
}

static void
put_provider (Sink *to, const OrtrainProvider *provider)
{
  const OrtrainProviderClass *klass = provider->klass;
  const OrtrainDeviceSpeed *speed = &provider->speed;
  put_text (to, klass->name);
  put_int (to, klass->reads_host);
  for (guint i = 0; i < ORTRAIN_N_MEMORY_SPACES; i++)
    put_int (to, (gint64) klass->alignment[i]);
  for (guint i = 0; i < ORTRAIN_DEVICE_SPEED_N_DTYPES; i++)
    put_double (to, speed->flops_per_second[i]);
  put_double (to, speed->bytes_per_second);
  put_double (to, speed->reached_flops);
  put_double (to, speed->reached_bytes);
  put_double (to, speed->launch_seconds);
  put_double (to, klass->offload_bytes_per_second);
}

/* ---- Answers ---- */

static void
finish (Sink *self, guint8 *digest)
{
  gsize n = ORTRAIN_PLAN_DIGEST_BYTES;
  flush (self);
  g_checksum_get_digest (self->sum, digest, &n);
  g_checksum_free (self->sum);
}

GBytes *
ortrain_plan_cache_entry_make_key (OrtrainGraph *graph, const OrtrainMemoryPlan *base,
                                   const OrtrainPlanRequest *request, const OrtrainBudget *budget)
{
  Sink sink = { .sum = g_checksum_new (G_CHECKSUM_SHA256) }, *key = &sink;
  guint8 digest[ORTRAIN_PLAN_DIGEST_BYTES];
  put_provider (key, request->provider);
  put_provider (key, request->host != NULL ? request->host : request->provider);
  PUT_INTS (key, request->keep_outputs_in_arena, request->context != NULL && request->context->two_streams,
            request->overlaps_offloads, request->without_search, (gint64) budget->bytes, budget->level, budget->any,
            budget->offloads, budget->family != NULL /* its answers have more */);
  for (guint c = 0; c <= ORTRAIN_CATEGORY_OUTPUT; c++)
    put_int (key, budget->persistent[c]);
  put_graph (key, graph);
  put_plan (key, base);
  put_kernels (key, base);
  finish (key, digest);
  return g_bytes_new (digest, sizeof digest);
}

void
ortrain_memory_plan_compute_digest (const OrtrainMemoryPlan *plan, guint8 *digest)
{
  Sink sink = { .sum = g_checksum_new (G_CHECKSUM_SHA256) };
  put_plan (&sink, plan);
  finish (&sink, digest);
}

/* Bits of a number in the file. */
enum
{
  FLAG_OVERLAPS = 1,
  FLAG_REFUSED = 2,
  FLAG_AS_IT_IS = 4, /* there is no choice */
  ALL_FLAGS = 7,
};

/* The digest, three numbers, the choice, and those for the family: a byte for each value. */
void
ortrain_plan_cache_entry_store (const OrtrainPlanCacheEntry *self, GBytes *key, guint n_values)
{
  gsize n_key;
  gconstpointer key_data = g_bytes_get_data (key, &n_key);
  GByteArray *contents = g_byte_array_new ();
  g_byte_array_append (contents, self->digest, sizeof self->digest);
  const guint n_known = self->known != NULL ? self->known->len : 0;
  const gint64 flags = (self->overlaps ? FLAG_OVERLAPS : 0) | (self->refused ? FLAG_REFUSED : 0) |
                       (self->choice == NULL ? FLAG_AS_IT_IS : 0);
  const gint64 numbers[] = { GINT64_TO_LE ((gint64) n_values), GINT64_TO_LE (flags), GINT64_TO_LE ((gint64) n_known) };
  g_byte_array_append (contents, (const guint8 *) numbers, sizeof numbers);
  if (self->choice != NULL)
    g_byte_array_append (contents, self->choice, n_values);
  for (guint c = 0; c < n_known; c++)
    g_byte_array_append (contents, self->known->pdata[c], n_values);
  g_autoptr (GBytes) bytes = g_byte_array_free_to_bytes (contents);
  ortrain_disk_cache_store (CACHE_KIND, key_data, n_key, bytes);
}

OrtrainPlanCacheEntry *
ortrain_plan_cache_entry_lookup (GBytes *key, guint n_values)
{
  gsize n_key, n;
  gint64 numbers[3];
  gconstpointer key_data = g_bytes_get_data (key, &n_key);
  g_autoptr (GBytes) bytes = ortrain_disk_cache_lookup (CACHE_KIND, key_data, n_key);
  if (bytes == NULL)
    return NULL;
  const guint8 *contents = g_bytes_get_data (bytes, &n);
  const gsize n_choice = n_values, n_head = ORTRAIN_PLAN_DIGEST_BYTES + sizeof numbers;
  if (n < n_head)
    return NULL;
  memcpy (numbers, contents + ORTRAIN_PLAN_DIGEST_BYTES, sizeof numbers);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    numbers[i] = GINT64_FROM_LE (numbers[i]);
  const gboolean has_choice = !(numbers[1] & FLAG_AS_IT_IS);
  if (numbers[0] != n_values || numbers[1] < 0 || numbers[1] > ALL_FLAGS || numbers[2] < 0 || numbers[2] > MAX_KNOWN ||
      n != n_head + n_choice * (has_choice + (gsize) numbers[2]))
    return NULL;
  OrtrainPlanCacheEntry *self = g_new0 (OrtrainPlanCacheEntry, 1);
  memcpy (self->digest, contents, ORTRAIN_PLAN_DIGEST_BYTES);
  self->refused = (numbers[1] & FLAG_REFUSED) != 0;
  self->overlaps = (numbers[1] & FLAG_OVERLAPS) != 0;
  self->choice = has_choice ? g_memdup2 (contents + n_head, n_choice) : NULL;
  self->known = g_ptr_array_new_with_free_func (g_free);
  for (gsize c = 0; c < (gsize) numbers[2]; c++)
    g_ptr_array_add (self->known, g_memdup2 (contents + n_head + (has_choice + c) * n_choice, n_choice));
  return self;
}

void
ortrain_plan_cache_entry_free (OrtrainPlanCacheEntry *self)
{
  g_free (self->choice);
  g_clear_pointer (&self->known, g_ptr_array_unref);
  g_free (self);
}
