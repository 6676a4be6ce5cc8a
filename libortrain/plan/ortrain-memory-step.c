/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "ortrain-enum-types.h"

/**
 * OrtrainMemoryStep:
 *
 * One call of a kernel in a plan: what runs, in which phase, how many bytes of the arena are live meanwhile, and about
 * how long it takes. [property@MemoryPlan:steps] lists them in their order; the steps of a [class@MemoryBlock] are
 * indices into this list.
 *
 * ```python
 * plan = session.plan({"x": x, "labels": labels})
 * time = 0.0
 * for step in plan.steps:
 *     print(f"{time:.3f} ms  {step.phase:8}  {step.node}: {step.live_bytes} bytes")
 *     time += step.milliseconds
 * ```
 *
 * A step is immutable, and any thread may use it.
 */
struct _OrtrainMemoryStep
{
  GObject parent_instance;

  char *node, *operator_name;
  const char *phase, *stream;
  OrtrainDType dtype;
  guint64 live_bytes;
  double flops, bytes_moved, milliseconds;
  gint recomputes;
};

enum
{
  PROP_0,
  PROP_NODE,
  PROP_OPERATOR,
  PROP_PHASE,
  PROP_STREAM,
  PROP_DTYPE,
  PROP_LIVE_BYTES,
  PROP_FLOPS,
  PROP_BYTES_MOVED,
  PROP_MILLISECONDS,
  PROP_RECOMPUTES,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (OrtrainMemoryStep, ortrain_memory_step, G_TYPE_OBJECT)

static void
ortrain_memory_step_finalize (GObject *object)
{
  OrtrainMemoryStep *self = ORTRAIN_MEMORY_STEP (object);
  g_free (self->node);
  g_free (self->operator_name);
  G_OBJECT_CLASS (ortrain_memory_step_parent_class)->finalize (object);
}

static void
ortrain_memory_step_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainMemoryStep *self = ORTRAIN_MEMORY_STEP (object);
  switch (property_id)
    {
    case PROP_NODE:
      g_value_set_string (value, self->node);
      break;
    case PROP_OPERATOR:
      g_value_set_string (value, self->operator_name);
      break;
    case PROP_PHASE:
      g_value_set_string (value, self->phase);
      break;
    case PROP_STREAM:
      g_value_set_string (value, self->stream);
      break;
    case PROP_DTYPE:
      g_value_set_enum (value, (gint) self->dtype);
      break;
    case PROP_LIVE_BYTES:
      g_value_set_uint64 (value, self->live_bytes);
      break;
    case PROP_FLOPS:
      g_value_set_double (value, self->flops);
      break;
    case PROP_BYTES_MOVED:
      g_value_set_double (value, self->bytes_moved);
      break;
    case PROP_MILLISECONDS:
      g_value_set_double (value, self->milliseconds);
      break;
    case PROP_RECOMPUTES:
      g_value_set_int (value, self->recomputes);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_memory_step_class_init (OrtrainMemoryStepClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_memory_step_finalize;
  object_class->get_property = ortrain_memory_step_get_property;

  /**
   * OrtrainMemoryStep:node: (getter get_node)
   *
   * What the graph calls the node; its operator where the node has no name. Read-only.
   */
  properties[PROP_NODE] = g_param_spec_string ("node", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryStep:operator: (getter get_operator)
   *
   * The operator of the node, for instance `Conv`. Read-only.
   */
  properties[PROP_OPERATOR] = g_param_spec_string ("operator", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryStep:phase: (getter get_phase)
   *
   * `forward`, `backward` or `update`. Read-only.
   */
  properties[PROP_PHASE] = g_param_spec_string ("phase", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryStep:stream: (getter get_stream)
   *
   * The stream that it is submitted to: `compute` or `side` of the device, `copy` between memories, or `host`.
   * Read-only.
   */
  properties[PROP_STREAM] = g_param_spec_string ("stream", NULL, NULL, "", flags);
  /**
   * OrtrainMemoryStep:dtype: (getter get_dtype)
   *
   * The type of its first operand, which is that of the factors of a product; %ORTRAIN_DTYPE_UNDEFINED where it has no
   * operands. Read-only.
   */
  properties[PROP_DTYPE] = g_param_spec_enum ("dtype", NULL, NULL, ORTRAIN_TYPE_DTYPE, ORTRAIN_DTYPE_UNDEFINED, flags);
  /**
   * OrtrainMemoryStep:live-bytes: (getter get_live_bytes)
   *
   * How many bytes of the arena are live while it runs. Read-only.
   */
  properties[PROP_LIVE_BYTES] = g_param_spec_uint64 ("live-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainMemoryStep:flops: (getter get_flops)
   *
   * About how many floating-point operations it does, by the kernel's own estimate. Read-only.
   */
  properties[PROP_FLOPS] = g_param_spec_double ("flops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * OrtrainMemoryStep:bytes-moved: (getter get_bytes_moved)
   *
   * About how many bytes it reads and writes, by the kernel's own estimate. Read-only.
   */
  properties[PROP_BYTES_MOVED] = g_param_spec_double ("bytes-moved", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * OrtrainMemoryStep:milliseconds: (getter get_milliseconds)
   *
   * About how long it takes, by these two and the nominal speed of the device; nothing was measured. Read-only.
   */
  properties[PROP_MILLISECONDS] = g_param_spec_double ("milliseconds", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * OrtrainMemoryStep:recomputes: (getter get_recomputes)
   *
   * The index of the step of the forward pass that it runs again; -1 for one that runs once. Read-only.
   */
  properties[PROP_RECOMPUTES] = g_param_spec_int ("recomputes", NULL, NULL, -1, G_MAXINT, -1, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_memory_step_init (OrtrainMemoryStep *self)
{
}

OrtrainDType
ortrain_plan_step_get_dtype (const OrtrainPlanStep *step)
{
  return ortrain_node_get_dtype (step->node);
}

OrtrainMemoryStep *
ortrain_memory_step_new (const OrtrainMemoryPlan *plan, guint index, guint64 live_bytes)
{
  const OrtrainPlanStep *step = &plan->steps[index];
  const char *name = step->node->name;
  OrtrainMemoryStep *self = g_object_new (ORTRAIN_TYPE_MEMORY_STEP, NULL);
  self->node = g_strdup (name != NULL && *name != '\0' ? name : step->node->op_type);
  self->operator_name = g_strdup (step->node->op_type);
  self->phase = ortrain_phase_get_name (step->phase);
  self->stream = ortrain_plan_stream_get_name (step->stream);
  self->dtype = ortrain_plan_step_get_dtype (step);
  self->live_bytes = live_bytes;
  self->flops = step->flops;
  self->bytes_moved = step->bytes_moved;
  self->milliseconds = step->milliseconds;
  self->recomputes = step->recomputes;
  return self;
}

/**
 * ortrain_memory_step_get_node: (get-property node)
 * @self: a step
 *
 * Gets what the graph calls the node; its operator where the node has no name.
 *
 * Returns: (transfer none): a name
 */
const char *
ortrain_memory_step_get_node (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), NULL);

  return self->node != NULL ? self->node : "";
}

/**
 * ortrain_memory_step_get_operator: (get-property operator)
 * @self: a step
 *
 * Gets the operator of the node, for instance `Conv`.
 *
 * Returns: (transfer none): an operator
 */
const char *
ortrain_memory_step_get_operator (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), NULL);

  return self->operator_name != NULL ? self->operator_name : "";
}

/**
 * ortrain_memory_step_get_phase: (get-property phase)
 * @self: a step
 *
 * Gets the phase: `forward`, `backward` or `update`.
 *
 * Returns: (transfer none): the phase
 */
const char *
ortrain_memory_step_get_phase (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), NULL);

  return self->phase != NULL ? self->phase : "";
}

/**
 * ortrain_memory_step_get_stream: (get-property stream)
 * @self: a step
 *
 * Gets the stream that it is submitted to: `compute` or `side` of the device, `copy` between memories, or `host`.
 *
 * Returns: (transfer none): the stream
 */
const char *
ortrain_memory_step_get_stream (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), NULL);

  return self->stream != NULL ? self->stream : "";
}

/**
 * ortrain_memory_step_get_dtype: (get-property dtype)
 * @self: a step
 *
 * Gets the type of its first operand, which is that of the factors of a product.
 *
 * Returns: a type; %ORTRAIN_DTYPE_UNDEFINED where it has no operands
 */
OrtrainDType
ortrain_memory_step_get_dtype (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), ORTRAIN_DTYPE_UNDEFINED);

  return self->dtype;
}

/**
 * ortrain_memory_step_get_live_bytes: (get-property live-bytes)
 * @self: a step
 *
 * Gets how many bytes of the arena are live while it runs.
 *
 * Returns: bytes
 */
guint64
ortrain_memory_step_get_live_bytes (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), 0);

  return self->live_bytes;
}

/**
 * ortrain_memory_step_get_flops: (get-property flops)
 * @self: a step
 *
 * Gets about how many floating-point operations it does, by the kernel's own estimate.
 *
 * Returns: how many
 */
double
ortrain_memory_step_get_flops (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), 0);

  return self->flops;
}

/**
 * ortrain_memory_step_get_bytes_moved: (get-property bytes-moved)
 * @self: a step
 *
 * Gets about how many bytes it reads and writes, by the kernel's own estimate.
 *
 * Returns: bytes
 */
double
ortrain_memory_step_get_bytes_moved (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), 0);

  return self->bytes_moved;
}

/**
 * ortrain_memory_step_get_milliseconds: (get-property milliseconds)
 * @self: a step
 *
 * Gets about how long it takes, by these two and the nominal speed of the device; nothing was measured.
 *
 * Returns: milliseconds; 0 if it is not known
 */
double
ortrain_memory_step_get_milliseconds (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), 0);

  return self->milliseconds;
}

/**
 * ortrain_memory_step_get_recomputes: (get-property recomputes)
 * @self: a step
 *
 * Gets the index of the step of the forward pass that it runs again; -1 for one that runs once.
 *
 * Returns: index of a step, or -1
 */
gint
ortrain_memory_step_get_recomputes (OrtrainMemoryStep *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_STEP (self), -1);

  return self->recomputes;
}
