/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "ops/ortrain-op-private.h"

/**
 * OrtrainMemoryPlan:
 *
 * Where every byte of a step is: the order of execution, the lifetime and the offset of every value and of every
 * kernel's workspace, and the peak that follows. It is created before anything runs, and the bytes that are really
 * allocated are exactly those that it says.
 *
 * ```python
 * plan = session.plan({"x": x, "labels": labels})
 * print(plan)
 * print(plan.peak_bytes, plan.arena_bytes, plan.lower_bound_bytes, plan.persistent_bytes)
 * plan.save_svg("plan.svg")
 * ```
 *
 * A plan is immutable, and any thread may use it.
 */

enum
{
  PROP_0,
  PROP_PEAK_BYTES,
  PROP_ARENA_BYTES,
  PROP_LOWER_BOUND_BYTES,
  PROP_PERSISTENT_BYTES,
  PROP_N_STEPS,
  PROP_N_RECOMPUTED_STEPS,
  PROP_OFFLOADED_BYTES,
  PROP_FLOPS,
  PROP_MILLISECONDS,
  PROP_PEAK_STEP,
  PROP_GRADIENTS_KEPT,
  PROP_BLOCKS,
  PROP_STEPS,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (OrtrainMemoryPlan, ortrain_memory_plan, G_TYPE_OBJECT)

static void
ortrain_memory_plan_finalize (GObject *object)
{
  OrtrainMemoryPlan *self = ORTRAIN_MEMORY_PLAN (object);
  g_ptr_array_unref (self->kernels);
  g_clear_object (&self->blocks);
  g_clear_object (&self->step_objects);
  g_clear_pointer (&self->names, g_string_chunk_free);
  g_free (self->values);
  g_free (self->steps);
  g_free (self->operands);
  g_free (self->waits);
  g_free (self->inplace);
  g_free (self->buffers);
  g_free (self->live);
  g_free (self->high_water);
  g_clear_object (&self->graph);
  g_clear_pointer (&self->context, ortrain_plan_context_unref);
  g_free (self->dropped_clusters);
  G_OBJECT_CLASS (ortrain_memory_plan_parent_class)->finalize (object);
}

static void
ortrain_memory_plan_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainMemoryPlan *self = ORTRAIN_MEMORY_PLAN (object);
  switch (property_id)
    {
    case PROP_PEAK_BYTES:
      g_value_set_uint64 (value, ortrain_memory_plan_get_peak_bytes (self));
      break;
    case PROP_ARENA_BYTES:
      g_value_set_uint64 (value, ortrain_memory_plan_get_arena_bytes (self));
      break;
    case PROP_LOWER_BOUND_BYTES:
      g_value_set_uint64 (value, ortrain_memory_plan_get_lower_bound_bytes (self));
      break;
    case PROP_PERSISTENT_BYTES:
      g_value_set_uint64 (value, ortrain_memory_plan_get_persistent_bytes (self));
      break;
    case PROP_N_STEPS:
      g_value_set_uint (value, self->n_steps);
      break;
    case PROP_N_RECOMPUTED_STEPS:
      g_value_set_uint (value, ortrain_memory_plan_get_n_recomputed_steps (self));
      break;
    case PROP_OFFLOADED_BYTES:
      g_value_set_uint64 (value, ortrain_memory_plan_get_offloaded_bytes (self));
      break;
    case PROP_FLOPS:
      g_value_set_double (value, ortrain_memory_plan_get_flops (self));
      break;
    case PROP_MILLISECONDS:
      g_value_set_double (value, ortrain_memory_plan_get_milliseconds (self));
      break;
    case PROP_PEAK_STEP:
      g_value_set_uint (value, ortrain_memory_plan_get_peak_step (self));
      break;
    case PROP_GRADIENTS_KEPT:
      g_value_set_string (value, ortrain_memory_plan_get_gradients_kept (self));
      break;
    case PROP_STEPS:
      g_value_set_object (value, ortrain_memory_plan_get_steps (self));
      break;
    case PROP_BLOCKS:
      g_value_set_object (value, ortrain_memory_plan_get_blocks (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_memory_plan_class_init (OrtrainMemoryPlanClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_memory_plan_finalize;
  object_class->get_property = ortrain_memory_plan_get_property;

  /**
   * OrtrainMemoryPlan:peak-bytes: (getter get_peak_bytes)
   *
   * How many bytes a step holds: the arena, and what lives from step to step. Read-only.
   */
  properties[PROP_PEAK_BYTES] = g_param_spec_uint64 ("peak-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryPlan:arena-bytes: (getter get_arena_bytes)
   *
   * The size of the arena, which holds the values of one step, in bytes. Read-only.
   */
  properties[PROP_ARENA_BYTES] = g_param_spec_uint64 ("arena-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryPlan:lower-bound-bytes: (getter get_lower_bound_bytes)
   *
   * The largest sum of sizes that are live at one time, in bytes: no arrangement needs less. Read-only.
   */
  properties[PROP_LOWER_BOUND_BYTES] = g_param_spec_uint64 ("lower-bound-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryPlan:persistent-bytes: (getter get_persistent_bytes)
   *
   * The size of parameters, gradients, optimizer state and buffers, in bytes. Read-only.
   */
  properties[PROP_PERSISTENT_BYTES] = g_param_spec_uint64 ("persistent-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryPlan:n-steps: (getter get_n_steps)
   *
   * How many kernels are called. Read-only.
   */
  properties[PROP_N_STEPS] = g_param_spec_uint ("n-steps", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainMemoryPlan:n-recomputed-steps: (getter get_n_recomputed_steps)
   *
   * How many kernels are called in the backward pass to compute again what the forward pass has computed. Read-only.
   */
  properties[PROP_N_RECOMPUTED_STEPS] = g_param_spec_uint ("n-recomputed-steps", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainMemoryPlan:offloaded-bytes: (getter get_offloaded_bytes)
   *
   * How many bytes leave the memory of a step after the forward pass, and are copied back in the backward pass. They
   * are in none of the other figures. Read-only.
   */
  properties[PROP_OFFLOADED_BYTES] = g_param_spec_uint64 ("offloaded-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryPlan:flops: (getter get_flops)
   *
   * About how many floating-point operations a step does, by the kernels' own estimates. Read-only.
   */
  properties[PROP_FLOPS] = g_param_spec_double ("flops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * OrtrainMemoryPlan:milliseconds: (getter get_milliseconds)
   *
   * About how long a step takes, in milliseconds, by the kernels' own estimates of their work and the nominal speed of
   * the device; nothing was measured. Read-only.
   */
  properties[PROP_MILLISECONDS] = g_param_spec_double ("milliseconds", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * OrtrainMemoryPlan:peak-step: (getter get_peak_step)
   *
   * The index of the step with the most live bytes of the arena, the first of several. Read-only.
   */
  properties[PROP_PEAK_STEP] = g_param_spec_uint ("peak-step", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainMemoryPlan:gradients-kept: (getter get_gradients_kept)
   *
   * Why gradients of parameters have memory of their own until the update, as an English phrase; %NULL where parameters
   * are updated in the backward pass, and where nothing is trained. Read-only.
   */
  properties[PROP_GRADIENTS_KEPT] = g_param_spec_string ("gradients-kept", NULL, NULL, NULL, flags);
  /**
   * OrtrainMemoryPlan:steps: (getter get_steps)
   *
   * The calls of kernels, in their order, as a list of [class@MemoryStep]. Read-only.
   */
  properties[PROP_STEPS] = g_param_spec_object ("steps", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  /**
   * OrtrainMemoryPlan:blocks: (getter get_blocks)
   *
   * Each value, as a list of [class@MemoryBlock]. Read-only.
   */
  properties[PROP_BLOCKS] = g_param_spec_object ("blocks", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_memory_plan_init (OrtrainMemoryPlan *self)
{
  self->kernels = g_ptr_array_new_with_free_func ((GDestroyNotify) ortrain_prepared_kernel_unref);
  self->alignment = ORTRAIN_DEVICE_ALIGNMENT;
}

gsize
ortrain_plan_align (gsize bytes, gsize alignment)
{
  return (bytes + alignment - 1) & ~(alignment - 1);
}

void
ortrain_memory_plan_measure (OrtrainMemoryPlan *self)
{
  guint n = self->n_steps;
  g_autofree gsize *change = g_new0 (gsize, n + 3);
  g_autofree gsize *end = g_new0 (gsize, n + 2);
  g_free (self->live);
  g_free (self->high_water);
  self->live = g_new0 (gsize, n + 1);
  self->high_water = g_new0 (gsize, n + 1);
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (!ortrain_plan_value_is_block (self->values, i))
        continue;
      gsize bytes = ortrain_plan_align (value->bytes, self->alignment);
      /* Live before step s: made by an earlier step, read by s or a later one. */
      change[value->first + 1] += bytes;
      change[value->last + 1] -= bytes;
      end[MAX (value->first, 0) + 1] = MAX (end[MAX (value->first, 0) + 1], value->offset + bytes);
    }
  gsize live = 0, high = 0;
  for (guint s = 0; s <= n; s++)
    {
      live += change[s];
      high = MAX (high, end[s]);
      self->live[s] = live;
      self->high_water[s] = high;
    }
}

gsize *
ortrain_memory_plan_measure_steps (const OrtrainMemoryPlan *self)
{
  gsize *live = g_new0 (gsize, self->n_steps + 2), sum = 0; /* at first what a step adds to those before it */
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (!ortrain_plan_value_is_block (self->values, i) || value->last < value->first)
        continue;
      const gsize bytes = ortrain_plan_align (value->bytes, self->alignment);
      live[MAX (value->first, 0)] += bytes;
      if (value->last < (gint32) self->n_steps)
        live[value->last + 1] -= bytes;
    }
  for (guint s = 0; s < self->n_steps; s++)
    live[s] = sum += live[s];
  return live;
}

guint
ortrain_memory_plan_find_peak (const OrtrainMemoryPlan *self, gsize *bytes)
{
  g_autofree gsize *live = ortrain_memory_plan_measure_steps (self);
  gsize most = 0;
  guint peak = 0;
  for (guint s = 0; s < self->n_steps; s++)
    if (live[s] > most)
      {
        most = live[s];
        peak = s;
      }
  if (bytes != NULL)
    *bytes = most;
  return peak;
}

static gboolean
has_maker (const OrtrainMemoryPlan *self, const OrtrainPlanValue *value)
{
  return self->steps != NULL && value->first >= 0 && value->first < (gint32) self->n_steps;
}

const char *
ortrain_memory_plan_get_maker (const OrtrainMemoryPlan *self, const OrtrainPlanValue *value)
{
  if (!has_maker (self, value))
    return NULL;
  const OrtrainNode *maker = self->steps[value->first].node;
  return maker->name != NULL && *maker->name != '\0' ? maker->name : maker->op_type;
}

gboolean
ortrain_memory_plan_is_recomputed (const OrtrainMemoryPlan *self, const OrtrainPlanValue *value)
{
  return has_maker (self, value) && value->category != ORTRAIN_CATEGORY_WORKSPACE &&
         self->steps[value->first].recomputes >= 0;
}

const OrtrainPlanValue *
ortrain_memory_plan_peek_values (OrtrainMemoryPlan *self, guint *n)
{
  if (n != NULL)
    *n = self->n_values;
  return self->values;
}

const OrtrainPlanStep *
ortrain_memory_plan_peek_steps (OrtrainMemoryPlan *self, guint *n)
{
  if (n != NULL)
    *n = self->n_steps;
  return self->steps;
}

const guint32 *
ortrain_memory_plan_peek_waits (OrtrainMemoryPlan *self, guint *n)
{
  if (n != NULL)
    *n = self->n_waits;
  return self->waits;
}

gsize
ortrain_memory_plan_get_host_arena_bytes (OrtrainMemoryPlan *self)
{
  return self->host_arena_bytes;
}

const guint32 *
ortrain_memory_plan_peek_operands (OrtrainMemoryPlan *self, guint *n)
{
  if (n != NULL)
    *n = self->n_operands;
  return self->operands;
}

const guint64 *
ortrain_memory_plan_peek_inplace (OrtrainMemoryPlan *self)
{
  return self->inplace;
}

guint
ortrain_memory_plan_get_first_backward_step (OrtrainMemoryPlan *self)
{
  return self->first_backward;
}

guint
ortrain_memory_plan_get_first_update_step (OrtrainMemoryPlan *self)
{
  return self->first_update;
}

OrtrainGraph *
ortrain_memory_plan_peek_graph (OrtrainMemoryPlan *self)
{
  return self->graph;
}

guint
ortrain_memory_plan_get_n_layers (OrtrainMemoryPlan *self)
{
  return self->n_layers;
}

const char *
ortrain_memory_plan_get_dropped_clusters (OrtrainMemoryPlan *self)
{
  return self->dropped_clusters;
}

gsize
ortrain_memory_plan_get_live_bytes (OrtrainMemoryPlan *self, guint step)
{
  return self->live != NULL ? self->live[MIN (step, self->n_steps)] : 0;
}

gsize
ortrain_memory_plan_get_high_water (OrtrainMemoryPlan *self, guint step)
{
  return self->high_water != NULL ? self->high_water[MIN (step, self->n_steps)] : 0;
}

gsize
ortrain_memory_plan_get_category_bytes (OrtrainMemoryPlan *self, OrtrainCategory category, guint step)
{
  gsize sum = 0;
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->category == category && ortrain_plan_value_is_block (self->values, i) &&
          value->first < (gint32) step && value->last >= (gint32) step)
        sum += ortrain_plan_align (value->bytes, self->alignment);
    }
  return sum;
}

void
ortrain_memory_plan_set_persistent (OrtrainMemoryPlan *self, OrtrainCategory category, gsize bytes)
{
  self->persistent[category] = bytes;
}

gsize
ortrain_memory_plan_get_persistent (OrtrainMemoryPlan *self, OrtrainCategory category)
{
  return self->persistent[category];
}

guint32
ortrain_memory_plan_find_buffer (OrtrainMemoryPlan *self, const OrtrainValue *value)
{
  if (value == NULL || value->id >= self->n_buffers)
    return G_MAXUINT32;
  guint32 buffer = self->buffers[value->id];
  return buffer != G_MAXUINT32 && self->values[buffer].value == value ? buffer : G_MAXUINT32;
}

/**
 * ortrain_memory_plan_get_peak_bytes: (get-property peak-bytes)
 * @self: a plan
 *
 * Gets how many bytes a step holds: the arena, and what lives from step to step. May be called from any thread.
 *
 * Returns: bytes
 */
guint64
ortrain_memory_plan_get_peak_bytes (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  return self->arena_bytes + ortrain_memory_plan_get_persistent_bytes (self);
}

/**
 * ortrain_memory_plan_get_arena_bytes: (get-property arena-bytes)
 * @self: a plan
 *
 * Gets the size of the arena, which holds the values of one step, in bytes. May be called from any thread.
 *
 * Returns: bytes
 */
guint64
ortrain_memory_plan_get_arena_bytes (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  return self->arena_bytes;
}

/**
 * ortrain_memory_plan_get_lower_bound_bytes: (get-property lower-bound-bytes)
 * @self: a plan
 *
 * Gets the largest sum of sizes that are live at one time, in bytes: no arrangement needs less. May be called from any
 * thread.
 *
 * Returns: bytes
 */
guint64
ortrain_memory_plan_get_lower_bound_bytes (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  return self->lower_bound_bytes;
}

/**
 * ortrain_memory_plan_get_persistent_bytes: (get-property persistent-bytes)
 * @self: a plan
 *
 * Gets the size of parameters, gradients, optimizer state and buffers, in bytes. May be called from any thread.
 *
 * Returns: bytes
 */
guint64
ortrain_memory_plan_get_persistent_bytes (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  return self->persistent[ORTRAIN_CATEGORY_PARAMETER] + self->persistent[ORTRAIN_CATEGORY_GRADIENT] +
         self->persistent[ORTRAIN_CATEGORY_STATE] + self->persistent[ORTRAIN_CATEGORY_BUFFER];
}

/**
 * ortrain_memory_plan_get_n_steps: (get-property n-steps)
 * @self: a plan
 *
 * Gets how many kernels are called. May be called from any thread.
 *
 * Returns: number of steps
 */
guint
ortrain_memory_plan_get_n_steps (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  return self->n_steps;
}

/**
 * ortrain_memory_plan_get_offloaded_bytes: (get-property offloaded-bytes)
 * @self: a plan
 *
 * Gets how many bytes leave the memory of a step after the forward pass, and are copied back in the backward pass.
 *
 * Returns: bytes
 *
 * Since: 1.0
 */
guint64
ortrain_memory_plan_get_offloaded_bytes (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  guint64 bytes = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    if (ortrain_node_get_kind (self->steps[s].node) == ORTRAIN_OP_KIND_OFFLOAD)
      bytes += self->values[self->operands[self->steps[s].first_operand]].bytes;
  return bytes;
}

/**
 * ortrain_memory_plan_get_n_recomputed_steps: (get-property n-recomputed-steps)
 * @self: a plan
 *
 * Gets how many kernels are called in the backward pass to compute again what the forward pass has computed. May be
 * called from any thread.
 *
 * Returns: how many
 */
guint
ortrain_memory_plan_get_n_recomputed_steps (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  guint n = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    n += self->steps[s].recomputes >= 0;
  return n;
}

/**
 * ortrain_memory_plan_get_flops: (get-property flops)
 * @self: a plan
 *
 * Gets about how many floating-point operations a step does, by the kernels' own estimates. May be called from any
 * thread.
 *
 * Returns: how many
 */
double
ortrain_memory_plan_get_flops (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  double flops, bytes_moved;
  ortrain_memory_plan_sum_work (self, &flops, &bytes_moved);
  return flops;
}

/**
 * ortrain_memory_plan_get_milliseconds: (get-property milliseconds)
 * @self: a plan
 *
 * Gets about how long a step takes, by the kernels' own estimates of their work and the nominal speed of the device. It
 * is the sum over [property@MemoryPlan:steps]; nothing was measured. May be called from any thread.
 *
 * Returns: milliseconds
 */
double
ortrain_memory_plan_get_milliseconds (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  double sum = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    sum += self->steps[s].milliseconds;
  return sum;
}

/**
 * ortrain_memory_plan_get_peak_step: (get-property peak-step)
 * @self: a plan
 *
 * Gets the index of the step with the most live bytes of the arena, the first of several. May be called from any
 * thread.
 *
 * Returns: an index into [property@MemoryPlan:steps]
 */
guint
ortrain_memory_plan_get_peak_step (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), 0);

  return ortrain_memory_plan_find_peak (self, NULL);
}

/**
 * ortrain_memory_plan_get_gradients_kept: (get-property gradients-kept)
 * @self: a plan
 *
 * Gets why gradients of parameters have memory of their own until the update, for instance
 * `max-grad-norm needs all of them together`. May be called from any thread.
 *
 * Returns: (transfer none) (nullable): a phrase; %NULL where parameters are updated in the backward pass, and where
 *     nothing is trained
 */
const char *
ortrain_memory_plan_get_gradients_kept (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  return self->graph != NULL ? self->graph->gradients_kept : NULL;
}

/* Protects the objects of all plans that are made when they are asked for. */
static GMutex objects_lock;

/**
 * ortrain_memory_plan_get_steps: (get-property steps)
 * @self: a plan
 *
 * Gets the calls of kernels, in their order: the bytes that are live while each runs, and about how long it takes. A
 * packing alone ([ctor@MemoryPlan.new_from_csv]) has none. May be called from any thread.
 *
 * Returns: (transfer none): a list model of [class@MemoryStep]
 */
GListModel *
ortrain_memory_plan_get_steps (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  g_mutex_lock (&objects_lock);
  if (self->step_objects == NULL)
    {
      g_autofree gsize *live = ortrain_memory_plan_measure_steps (self);
      self->step_objects = ortrain_object_list_new (ORTRAIN_TYPE_MEMORY_STEP);
      for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
        {
          g_autoptr (OrtrainMemoryStep) step = ortrain_memory_step_new (self, s, live[s]);
          ortrain_object_list_append (self->step_objects, step);
        }
    }
  g_mutex_unlock (&objects_lock);
  return G_LIST_MODEL (self->step_objects);
}

/**
 * ortrain_memory_plan_get_blocks: (get-property blocks)
 * @self: a plan
 *
 * Gets each value, as a list of [class@MemoryBlock].
 *
 * Returns: (transfer none): a list model of [class@MemoryBlock]
 */
GListModel *
ortrain_memory_plan_get_blocks (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  g_mutex_lock (&objects_lock);
  if (self->blocks == NULL)
    {
      OrtrainObjectList *store = ortrain_object_list_new (ORTRAIN_TYPE_MEMORY_BLOCK);
      for (guint pass = 0; pass < 2; pass++)
        for (guint i = 0; i < self->n_values; i++)
          {
            const OrtrainPlanValue *value = &self->values[i];
            if (value->root != i || value->bytes == 0 || (value->region == ORTRAIN_REGION_ARENA) != (pass == 0))
              continue;
            g_autoptr (OrtrainMemoryBlock) block = ortrain_memory_block_new (
                value->name, ortrain_category_get_nick (value->category), ortrain_region_get_nick (value->region),
                ortrain_memory_plan_get_maker (self, value), value->offset, value->bytes, value->first, value->last,
                ortrain_memory_plan_is_recomputed (self, value));
            ortrain_object_list_append (store, block);
          }
      self->blocks = store;
    }
  g_mutex_unlock (&objects_lock);
  return G_LIST_MODEL (self->blocks);
}
