/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-memory-plan-private.h"

#include "core/ortrain-text-private.h"

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
  PROP_FLOPS,
  PROP_BLOCKS,
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
    case PROP_FLOPS:
      g_value_set_double (value, ortrain_memory_plan_get_flops (self));
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
   * OrtrainMemoryPlan:flops: (getter get_flops)
   *
   * About how many floating-point operations a step does, by the kernels' own estimates. Read-only.
   */
  properties[PROP_FLOPS] = g_param_spec_double ("flops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
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

static const char *
region_nick (OrtrainRegion region)
{
  switch (region)
    {
    case ORTRAIN_REGION_ARENA:
      return "arena";
    case ORTRAIN_REGION_HOST_ARENA:
      return "host-arena";
    case ORTRAIN_REGION_PARAMETER:
      return "parameter";
    case ORTRAIN_REGION_GRADIENT:
      return "gradient";
    case ORTRAIN_REGION_STATE:
      return "state";
    case ORTRAIN_REGION_BUFFER:
      return "buffer";
    case ORTRAIN_REGION_CONSTANT:
      return "constant";
    case ORTRAIN_REGION_INPUT:
      return "input";
    case ORTRAIN_REGION_OUTPUT:
      return "output";
    }
  return "unknown";
}

const char *
ortrain_category_get_nick (OrtrainCategory category)
{
  switch (category)
    {
    case ORTRAIN_CATEGORY_PARAMETER:
      return "parameter";
    case ORTRAIN_CATEGORY_GRADIENT:
      return "gradient";
    case ORTRAIN_CATEGORY_STATE:
      return "state";
    case ORTRAIN_CATEGORY_BUFFER:
      return "buffer";
    case ORTRAIN_CATEGORY_CONSTANT:
      return "constant";
    case ORTRAIN_CATEGORY_ACTIVATION:
      return "activation";
    case ORTRAIN_CATEGORY_TEMPORARY:
      return "temporary";
    case ORTRAIN_CATEGORY_WORKSPACE:
      return "workspace";
    case ORTRAIN_CATEGORY_INPUT:
      return "input";
    case ORTRAIN_CATEGORY_OUTPUT:
      return "output";
    }
  return "unknown";
}

const char *
ortrain_category_get_color (OrtrainCategory category)
{
  switch (category)
    {
    case ORTRAIN_CATEGORY_PARAMETER:
      return "#3584e4";
    case ORTRAIN_CATEGORY_GRADIENT:
      return "#e66100";
    case ORTRAIN_CATEGORY_STATE:
      return "#9141ac";
    case ORTRAIN_CATEGORY_BUFFER:
      return "#986a44";
    case ORTRAIN_CATEGORY_CONSTANT:
      return "#77767b";
    case ORTRAIN_CATEGORY_ACTIVATION:
      return "#2ec27e";
    case ORTRAIN_CATEGORY_TEMPORARY:
      return "#f5c211";
    case ORTRAIN_CATEGORY_WORKSPACE:
      return "#c01c28";
    case ORTRAIN_CATEGORY_INPUT:
      return "#62a0ea";
    case ORTRAIN_CATEGORY_OUTPUT:
      return "#33c7de";
    }
  return "#000000";
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

guint
ortrain_memory_plan_find_peak (OrtrainMemoryPlan *self, gsize *bytes)
{
  g_autofree gsize *change = g_new0 (gsize, self->n_steps + 2);
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (!ortrain_plan_value_is_block (self->values, i))
        continue;
      gsize size = ortrain_plan_align (value->bytes, self->alignment);
      change[MAX (value->first, 0)] += size;
      if (value->last < (gint32) self->n_steps)
        change[value->last + 1] -= size;
    }
  gsize live = 0, most = 0;
  guint peak = 0;
  for (guint s = 0; s < self->n_steps; s++)
    {
      live += change[s];
      if (live > most)
        {
          most = live;
          peak = s;
        }
    }
  if (bytes != NULL)
    *bytes = most;
  return peak;
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

static const char *const phase_names[] = { "forward", "backward", "update" };
G_STATIC_ASSERT (G_N_ELEMENTS (phase_names) == ORTRAIN_N_PHASES);

const char *
ortrain_phase_get_name (OrtrainPhase phase)
{
  return phase_names[phase];
}

const char *
ortrain_plan_stream_get_name (OrtrainPlanStream stream)
{
  switch (stream)
    {
    case ORTRAIN_STREAM_COMPUTE:
      return "compute";
    case ORTRAIN_STREAM_SIDE:
      return "side";
    case ORTRAIN_STREAM_COPY:
      return "copy";
    case ORTRAIN_STREAM_HOST:
      return "host";
    case ORTRAIN_N_STREAMS:
      break;
    }
  g_assert_not_reached ();
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
 * ortrain_memory_plan_get_n_recomputed_steps: (get-property n-recomputed-steps)
 * @self: a plan
 *
 * Gets how many kernels are called in the backward pass to compute again what the forward pass has computed. May be called
 * from any thread.
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
 * Gets about how many floating-point operations a step does, by the kernels' own estimates. May be called from any thread.
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

  static GMutex mutex;
  g_mutex_lock (&mutex);
  if (self->blocks == NULL)
    {
      GListStore *store = g_list_store_new (ORTRAIN_TYPE_MEMORY_BLOCK);
      for (guint pass = 0; pass < 2; pass++)
        for (guint i = 0; i < self->n_values; i++)
          {
            const OrtrainPlanValue *value = &self->values[i];
            if (value->root != i || value->bytes == 0 || (value->region == ORTRAIN_REGION_ARENA) != (pass == 0))
              continue;
            const char *node = NULL;
            if (self->steps != NULL && value->first >= 0 && value->first < (gint32) self->n_steps)
              {
                const OrtrainNode *maker = self->steps[value->first].node;
                node = maker->name != NULL && *maker->name != '\0' ? maker->name : maker->op_type;
              }
            g_autoptr (OrtrainMemoryBlock) block = ortrain_memory_block_new (
                value->name, ortrain_category_get_nick (value->category), region_nick (value->region), node,
                value->offset, value->bytes, value->first, value->last);
            g_list_store_append (store, block);
          }
      self->blocks = store;
    }
  g_mutex_unlock (&mutex);
  return G_LIST_MODEL (self->blocks);
}

static int
compare_bytes (gconstpointer a, gconstpointer b, gpointer data)
{
  const OrtrainPlanValue *values = data;
  const OrtrainPlanValue *x = &values[*(const guint32 *) a], *y = &values[*(const guint32 *) b];
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return *(const guint32 *) a < *(const guint32 *) b ? -1 : 1;
}

static void
append_bytes (GString *text, gsize bytes)
{
  if (bytes >= (gsize) 10 << 20)
    g_string_append_printf (text, "%.1f MiB", (double) bytes / (1 << 20));
  else if (bytes >= 10 << 10)
    g_string_append_printf (text, "%.1f KiB", (double) bytes / (1 << 10));
  else
    g_string_append_printf (text, "%" G_GSIZE_FORMAT " bytes", bytes);
}

/* What the device has no kernel for. */
static void
append_host (GString *text, const OrtrainMemoryPlan *self)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GString) names = g_string_new (NULL);
  guint n = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    if (self->steps[s].stream == ORTRAIN_STREAM_HOST)
      {
        n++;
        if (g_hash_table_add (seen, self->steps[s].node->op_type))
          g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "", self->steps[s].node->op_type);
      }
  if (n == 0)
    return;
  g_string_append_printf (text, "\n  host        %u steps, which the device has no kernel for: %s; ", n,
                          ortrain_text_show_list (names->str));
  append_bytes (text, self->host_arena_bytes);
}

void
ortrain_memory_plan_sum_work (const OrtrainMemoryPlan *self, double *flops, double *bytes_moved)
{
  *flops = *bytes_moved = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    {
      *flops += self->steps[s].flops;
      *bytes_moved += self->steps[s].bytes_moved;
    }
}

/**
 * ortrain_memory_plan_to_string:
 * @self: a plan
 *
 * Summarises the plan for a terminal: peak, arena, persistent memory by category, where the peak is and what is largest
 * there.
 *
 * Returns: (transfer full): some lines, without a newline at the end
 */
char *
ortrain_memory_plan_to_string (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  static const OrtrainCategory kept[] = { ORTRAIN_CATEGORY_PARAMETER, ORTRAIN_CATEGORY_GRADIENT, ORTRAIN_CATEGORY_STATE,
                                          ORTRAIN_CATEGORY_BUFFER };
  GString *text = g_string_new ("Memory plan: ");
  append_bytes (text, ortrain_memory_plan_get_peak_bytes (self));
  g_string_append_printf (text, " at the peak, %u steps", self->n_steps);
  g_string_append (text, "\n  arena       ");
  append_bytes (text, self->arena_bytes);
  if (self->lower_bound_bytes == self->arena_bytes)
    g_string_append (text, " (no arrangement needs less)");
  else
    {
      g_string_append (text, " (no arrangement needs less than ");
      append_bytes (text, self->lower_bound_bytes);
      g_string_append_c (text, ')');
    }
  g_string_append (text, "\n  persistent  ");
  append_bytes (text, ortrain_memory_plan_get_persistent_bytes (self));
  const char *separator = ": ";
  for (guint k = 0; k < G_N_ELEMENTS (kept); k++)
    if (self->persistent[kept[k]] > 0)
      {
        g_string_append_printf (text, "%s%s ", separator, ortrain_category_get_nick (kept[k]));
        append_bytes (text, self->persistent[kept[k]]);
        separator = ", ";
      }
  if (self->n_steps == 0)
    return g_string_free (text, FALSE);
  append_host (text, self);

  double flops, bytes_moved;
  ortrain_memory_plan_sum_work (self, &flops, &bytes_moved);
  if (bytes_moved > 0)
    {
      g_string_append_printf (text, "\n  work        about %.3g flop, ", flops);
      append_bytes (text, (gsize) MIN (bytes_moved, 1e18));
      g_string_append (text, " moved");
    }

  gsize most;
  guint peak = ortrain_memory_plan_find_peak (self, &most);
  g_string_append_printf (text, "\n  peak        at step %u of %u", peak, self->n_steps);
  if (self->steps != NULL)
    {
      g_autofree char *node = ortrain_node_describe (self->steps[peak].node);
      g_string_append_printf (text, ", %s, %s", node, phase_names[self->steps[peak].phase]);
    }
  g_string_append (text, ": ");
  append_bytes (text, most);
  g_string_append (text, " live");

  g_autoptr (GArray) buffers = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint32 i = 0; i < self->n_values; i++)
    if (ortrain_plan_value_is_block (self->values, i) && self->values[i].first <= (gint32) peak &&
        self->values[i].last >= (gint32) peak)
      g_array_append_val (buffers, i);
  g_array_sort_with_data (buffers, compare_bytes, self->values);
  for (guint i = 0; i < MIN (buffers->len, 5); i++)
    {
      const OrtrainPlanValue *value = &self->values[g_array_index (buffers, guint32, i)];
      g_string_append (text, "\n    ");
      append_bytes (text, value->bytes);
      g_autofree char *name = ortrain_text_quote (value->name);
      g_string_append_printf (text, "  %s %s", ortrain_category_get_nick (value->category), name);
      if (value->value != NULL)
        {
          g_autofree char *shape = ortrain_dims_to_string (value->value->dims, value->value->rank);
          g_string_append_printf (text, " %s", shape);
        }
    }
  return g_string_free (text, FALSE);
}
